//go:build !linux

package relay

import (
	"errors"
	"net"
)

func dropSegments(*net.TCPConn) error {
	return errors.New("only Linux has socket filters that drop the segments of a connection; run this test there")
}
