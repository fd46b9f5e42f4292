//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// stateAsked has a token each time that somebody asks for the state, by SIGUSR1.
func stateAsked() (asked <-chan os.Signal, forget func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	return c, func() { signal.Stop(c) }
}
