package relay

import (
	"net"

	"golang.org/x/sys/unix"
)

// dropSegments attaches a filter to a socket that drops each segment before TCP
// sees it, so nothing is acknowledged. (A filter on a TCP socket may be set
// without rights, see socket(7), SO_ATTACH_FILTER.)
func dropSegments(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0} // keep 0 bytes
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &drop})
	})
	if err != nil {
		return err
	}
	return failed
}
