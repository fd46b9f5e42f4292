//go:build !unix

package cli

import "os"

// stateAsked: there is no signal for it here; --metrics-addr has the state too.
func stateAsked() (asked <-chan os.Signal, forget func()) { return nil, func() {} }
