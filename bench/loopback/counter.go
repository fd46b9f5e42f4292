package loopback

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Counter counts what one goroutine does, and lets another one wait for a number.
type Counter struct {
	n, goal atomic.Int64
	reached chan struct{}
}

// NewCounter returns one that is at 0.
func NewCounter() *Counter { return &Counter{reached: make(chan struct{}, 1)} }

// Add adds n.
func (c *Counter) Add(n int64) {
	sum := c.n.Add(n)
	// Who takes the goal away tells the other side. It is read after the sum
	// was written, and Until does it the other way round: one of them sees both.
	if goal := c.goal.Load(); goal > 0 && sum >= goal && c.goal.CompareAndSwap(goal, 0) {
		c.reached <- struct{}{}
	}
}

// Load is the count.
func (c *Counter) Load() int64 { return c.n.Load() }

// Until waits until the count is goal, which is above 0. One goroutine may wait at a time.
func (c *Counter) Until(ctx context.Context, goal int64) error {
	c.goal.Store(goal)
	if c.n.Load() >= goal && c.goal.CompareAndSwap(goal, 0) {
		return nil
	}
	select {
	case <-c.reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d: %w", c.n.Load(), goal, context.Cause(ctx))
	}
}
