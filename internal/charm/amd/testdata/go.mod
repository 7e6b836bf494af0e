// Fixtures, which no package needs. Their names have colons, which a module's zip must not
// contain: go install leaves out a folder with a go.mod.
module github.com/fourdollars/concourse-ci-machine/internal/charm/amd/testdata

go 1.26.8
