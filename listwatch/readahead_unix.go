//go:build unix

package listwatch

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// readArrived returns the reads of readAhead.arrived.
func readArrived(conn net.Conn, raw syscall.RawConn) func(p []byte) (int, error) {
	return func(p []byte) (n int, err error) {
		if failed := raw.Read(func(fd uintptr) (done bool) {
			for {
				if n, err = syscall.Read(int(fd), p); !errors.Is(err, syscall.EINTR) {
					return true
				}
			}
		}); failed != nil {
			return 0, nil // closed, or its deadline passed
		}
		switch {
		case err == nil: // at the end n is 0
			return n, nil
		case errors.Is(err, syscall.EAGAIN):
			return 0, nil
		}
		// As package net says it: the system tells a reset only once.
		local := conn.LocalAddr()
		return 0, &net.OpError{Op: "read", Net: local.Network(), Source: local, Addr: conn.RemoteAddr(), Err: os.NewSyscallError("read", err)}
	}
}
