package postgres

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"
)

// A web's component "tracker" takes up the running builds of the database. A component runs
// only on the web with its lock, which is an advisory lock of this class (Concourse,
// atc/db/lock, LockTypeBatch) with the checksum of the component's name.
const componentLocks = 2

// trackerTime bounds the wait for the lock. The tracker holds it for one query.
const trackerTime = 10 * time.Second

// HoldTracker runs do while no web of the database takes up builds. Builds that a web
// follows already go on. The server ends the hold together with the connection, so a killed
// process leaves nothing behind. Without the lock do runs too, because the web's own error
// about its database follows.
func HoldTracker(ctx context.Context, db Config, do func(context.Context) error) error {
	if c, err := connect(ctx, db); err == nil {
		defer c.close()
		within, cancel := context.WithTimeout(ctx, trackerTime)
		_, _ = c.query(within, fmt.Sprintf("select pg_catalog.pg_advisory_lock(%d, %d)", componentLocks,
			int32(crc32.ChecksumIEEE([]byte("tracker")))))
		cancel()
	}
	return do(ctx)
}
