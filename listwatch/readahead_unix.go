//go:build unix

package listwatch

import (
	"net"
	"os"
	"syscall"
)

// nonblockingRead returns the reads of readAhead.tryRead. They stand on top of all that reads a watch, on a stack that each
// idle watch has, so they take little of it.
func nonblockingRead(conn net.Conn, raw syscall.RawConn) func(p []byte) (int, error) {
	return func(p []byte) (n int, err error) {
		var errno error
		if raw.Read(func(fd uintptr) (done bool) {
			n, errno = syscall.Read(int(fd), p)
			for errno == syscall.EINTR {
				n, errno = syscall.Read(int(fd), p)
			}
			return true
		}) != nil {
			return 0, nil // closed, or its deadline passed
		}
		switch errno {
		case nil: // at the end n is 0
			return n, nil
		case syscall.EAGAIN:
			return 0, nil
		}
		return 0, readError(conn, errno)
	}
}

// readError is err as package net says it: the system tells a reset only once.
//
//go:noinline
func readError(conn net.Conn, err error) error {
	local := conn.LocalAddr()
	return &net.OpError{Op: "read", Net: local.Network(), Source: local, Addr: conn.RemoteAddr(), Err: os.NewSyscallError("read", err)}
}
