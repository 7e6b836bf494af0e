package builds

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/flake"
)

// list adds the newest builds. Builds between them and the known ones are a gap.
func (c *Collector) list(ctx context.Context) error {
	if c.lists < 1 {
		return nil
	}
	c.lists--
	var all []answer
	if err := c.ask(ctx, fmt.Sprintf("/api/v1/builds?limit=%d", page), maxList, into(&all)); err != nil {
		return err
	}
	oldest, newest := c.add(all)
	if newest == 0 {
		return nil
	}
	if len(all) == page && oldest > c.newest+1 {
		c.gaps = append(c.gaps, span{c.newest + 1, oldest - 1})
	}
	c.newest = max(c.newest, newest)
	return nil
}

// fill adds a page of each gap, the newest gap first.
func (c *Collector) fill(ctx context.Context) error {
	for len(c.gaps) > 0 {
		gap := &c.gaps[len(c.gaps)-1]
		var all []answer
		path := fmt.Sprintf("/api/v1/builds?limit=%d&to=%d", page, gap.to)
		if err := c.ask(ctx, path, maxList, into(&all)); err != nil {
			return err
		}
		oldest, _ := c.add(all)
		gap.to = oldest - 1
		full := len(c.builds) >= maxBuilds
		if len(all) < page || gap.to < gap.from || full || c.old(all[len(all)-1]) {
			c.gaps = c.gaps[:len(c.gaps)-1]
		}
		if full {
			c.gaps = nil
		}
	}
	return nil
}

// add adds builds of jobs, and returns the least and the greatest number of all builds.
func (c *Collector) add(all []answer) (oldest, newest int) {
	for _, a := range all {
		if a.ID <= 0 {
			continue
		}
		if newest = max(newest, a.ID); oldest == 0 || a.ID < oldest {
			oldest = a.ID
		}
		if a.Job == "" || c.old(a) || len(a.Team) > maxName || len(a.Job) > maxName || len(a.Name) > maxName {
			continue // builds of fly execute are run once
		}
		b := c.builds[a.ID]
		if b == nil {
			ref := c.o.Reference(a.Pipeline, a.Vars)
			if ref == "" {
				continue // its variables are too long for a name
			}
			b = &build{key: flake.Key{Team: a.Team, Pipeline: ref, Job: a.Job}}
			c.builds[a.ID] = b
		}
		b.answer = a
		b.Vars = nil
	}
	return oldest, newest
}

// old reports whether a build ended too long ago.
func (c *Collector) old(a answer) bool {
	return a.End > 0 && c.o.Now().Sub(time.Unix(a.End, 0)) > maxAge
}

// finish asks for running builds that are older than the list, in turn. So builds that stay
// pending delay no others.
func (c *Collector) finish(ctx context.Context) error {
	var ids []int
	for id, b := range c.builds {
		if b.running() && id <= c.newest-page {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	next, _ := slices.BinarySearch(ids, c.turn+1)
	failures := 0
	for _, id := range slices.Concat(ids[next:], ids[:next]) {
		if c.running < 1 || c.tokens < 1 {
			return nil
		}
		c.running--
		c.turn = id
		// One build may be unreadable. Several are an outage.
		if err := c.finished(ctx, id); err == nil {
			continue
		} else if failures++; failures == maxErrors || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// finished asks for a running build. A build that fails too often is removed.
func (c *Collector) finished(ctx context.Context, id int) error {
	var a answer
	err := c.ask(ctx, fmt.Sprintf("/api/v1/builds/%d", id), maxList, into(&a))
	b := c.builds[id]
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // not a failed try
	case err != nil:
		if b.tries++; b.tries >= maxTries {
			delete(c.builds, id) // such as of a removed pipeline
		}
		return err
	}
	if b.tries = 0; a.ID == id {
		c.add([]answer{a})
	}
	return nil
}
