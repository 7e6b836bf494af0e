module example.com/collector

go 1.26.0

require github.com/fourdollars/concourse-ci-machine v1.2.3
