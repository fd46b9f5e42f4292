//go:build unix

package cli

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// readerGone returns when nobody reads from the pipe f any more, or when ctx
// ends. Writing finds that out too, but on a quiet node the next write may be an
// hour away, and `| head -3` should end when head does. It reports whether the
// reader is gone; for what is no pipe that is never so.
func readerGone(ctx context.Context, f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		<-ctx.Done()
		return false
	}
	// Without events poll reports errors and hang-ups alone. It cannot be
	// interrupted, so it looks at ctx from time to time.
	const lookMillis = 250
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(f.Fd())}}
		n, err := unix.Poll(fds, lookMillis)
		if n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			return true
		}
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break // not something to poll; writing will tell
		}
	}
	<-ctx.Done()
	return false
}
