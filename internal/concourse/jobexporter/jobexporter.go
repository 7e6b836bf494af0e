// Package jobexporter serves the state of Concourse's jobs to Prometheus: how
// the last build of each job of each team ended, when, and how long it took; and
// how many workers have the architectures that the site requires. It is the
// workload behind port 9358.
//
// It asks Concourse's HTTP API on a timer of its own, never because somebody
// scrapes, and shows the last answer. Its user's password stands in a file that
// nobody else may read; it is never in argv, the environment, a log or an answer.
// It starts no program and writes no file. What Concourse no longer has is gone
// from the metrics with the next answer; where there is no answer, the last one
// is shown for a limited time and then nothing: an old state is not passed off
// as the present one.
package jobexporter

import "time"

// CredentialsEnv names the credentials file where --credentials-file does not.
const CredentialsEnv = "CONCOURSE_EXPORTER_CREDENTIALS_FILE"

const (
	defaultInterval = 30 * time.Second
	defaultTimeout  = 20 * time.Second
	defaultKeep     = 5 * time.Minute
	minInterval     = 5 * time.Second
	minTimeout      = time.Second
)

// Bounds on what is taken from Concourse. A site of 10,000 jobs answers with
// about 15 MB.
const (
	maxAnswer = 64 << 20 // bytes of one answer, after decompression
	maxItems  = 100_000  // jobs, or pipelines
	maxName   = 1024     // bytes of a team, pipeline with its vars, or job
	maxToken  = 64 << 10 // bytes of the answer to a login
	maxFile   = 64 << 10 // bytes of the credentials file
	maxCA     = 1 << 20  // bytes of its ca-file
)
