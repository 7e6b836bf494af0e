package role

import "time"

// WebSettleTime is how long a hook waits for a web that it started. The web prepares the
// database first.
const WebSettleTime = 60 * time.Second

// A started worker needs 4 to 6 s until it is registered. A worker that lost its web retries
// every 5 s. A hook waits that long, so that the status is right before the next
// update-status.
const (
	SettleTime = 15 * time.Second
	SettlePoll = 500 * time.Millisecond
)
