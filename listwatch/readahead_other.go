//go:build !unix

package listwatch

import (
	"net"
	"syscall"
)

// readArrived returns nil: what a read that does not wait is differs from system to system.
func readArrived(net.Conn, syscall.RawConn) func(p []byte) (int, error) { return nil }
