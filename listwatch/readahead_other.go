//go:build !unix

package listwatch

import (
	"net"
	"syscall"
)

// nonblockingRead returns nil: what a read that does not wait is differs from system to system.
func nonblockingRead(net.Conn, syscall.RawConn) func(p []byte) (int, error) { return nil }
