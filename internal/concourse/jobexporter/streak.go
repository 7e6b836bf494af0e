package jobexporter

// streak is how many builds of a job in a row have failed or errored.
type streak struct {
	end    int64 // of the last build that counted
	builds int
}

// streaks are by team, pipeline and job.
type streaks map[[3]string]streak

// then is the streak after the last finished build of a job. Concourse lists one
// finished build of a job: of several that ended between two polls, one counts. An
// aborted one says nothing of the job, and neither ends a streak nor adds to it.
func (s streak) then(b *build) streak {
	switch {
	case b == nil || b.Status == "succeeded":
		return streak{}
	case (b.Status == "failed" || b.Status == "errored") && b.End != s.end:
		return streak{b.End, s.builds + 1}
	}
	return s
}
