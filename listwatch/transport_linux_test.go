package listwatch

import (
	"net"
	"syscall"
	"testing"
)

// "TCP keep-alive 15 s/5 s/3 (about 30 s for a dead peer)"
func TestKeepAlive(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := newDialer().DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	err = raw.Control(func(fd uintptr) {
		for name, option := range map[string]int{"idle": syscall.TCP_KEEPIDLE, "interval": syscall.TCP_KEEPINTVL, "count": syscall.TCP_KEEPCNT} {
			if got[name], err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option); err != nil {
				t.Error(err)
			}
		}
		if got["on"], err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "socket options", got, map[string]int{"on": 1, "idle": 15, "interval": 5, "count": 3})
}
