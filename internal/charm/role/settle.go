package role

import "time"

// WebSettleTime is how long a hook that started the web waits for it: it
// prepares the database first.
const WebSettleTime = 60 * time.Second

// A worker that was just started needs 4 to 6 s until it is up and registered, one
// that lost its web tries again every 5 s. A hook that finds either looks again for
// so long, so that the status need not wait for the next update-status.
const (
	SettleTime = 15 * time.Second
	SettlePoll = 500 * time.Millisecond
)
