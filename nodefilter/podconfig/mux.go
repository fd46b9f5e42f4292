package podconfig

import "context"

// pump hands what the store has to tell to the reader of Updates, one update at
// a time.
//
// An update counts as told only when it was received. Until then it is an offer,
// which is taken back and made anew when pods in it have changed, so that a
// reader that comes late gets the newest state and not that of the moment when
// it fell behind.
func (c *PodConfig) pump(ctx context.Context) {
	for ctx.Err() == nil {
		o, ok := c.store.take()
		if !ok {
			select {
			case <-c.store.wake:
			case <-ctx.Done():
			}
			continue
		}
		select {
		case c.updates <- o.update():
			c.store.commit(o)
		case <-c.store.stale:
			c.store.retract(o)
		case <-ctx.Done():
		}
	}
}
