package cli

import (
	"context"
	"fmt"
	"time"
)

// showProgress tells a person at a terminal how far a first sync is that takes long.
func (p *podWatch) showProgress(ctx context.Context) {
	if !p.terminal.tty || p.options.log.format.value != "text" {
		return
	}
	began := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		missing := 0
		var listed, remaining int64
		for _, r := range p.reflectors {
			s := r.Status()
			if !s.Synced {
				missing++
			}
			listed += s.ListedItems
			remaining += s.RemainingItems
		}
		if missing == 0 {
			p.terminal.Progress("")
			return
		}
		if since := time.Since(began); since > time.Second {
			p.terminal.Progress(progressLine(listed, remaining, missing, len(p.reflectors), since))
		}
	}
}

func progressLine(listed, remaining int64, missing, nodes int, since time.Duration) string {
	line := fmt.Sprintf("waiting for the first list (%s)", since.Truncate(time.Second))
	if listed > 0 {
		line = fmt.Sprintf("listing: %d pods (%s)", listed, since.Truncate(time.Second))
	}
	if remaining > 0 {
		line += fmt.Sprintf(", about %d to come", remaining)
	}
	if nodes > 1 {
		line += fmt.Sprintf(", %d of %d nodes complete", nodes-missing, nodes)
	}
	return line
}
