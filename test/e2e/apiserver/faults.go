package apiserver

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Pause stops the API server (SIGSTOP): it answers nothing, while the kernel
// goes on to acknowledge what its sockets get. Resume ends it.
func (s *Server) Pause() error { return s.api.signal(syscall.SIGSTOP) }

// Resume lets a paused API server go on.
func (s *Server) Resume() error { return s.api.signal(syscall.SIGCONT) }

// RestartAfter kills the API server and starts it again such that it is down
// for the given time, as far as starts take equally long: startTook is how long
// an earlier one took. It returns when the server is ready.
func (s *Server) RestartAfter(ctx context.Context, down, startTook time.Duration) error {
	s.Kill()
	select {
	case <-time.After(down - startTook):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.startAPIServer(ctx)
}

// Snapshot copies etcd's data to dir, which must not exist. etcd stands still
// meanwhile, so the copy is what a crash in that moment would have left.
func (s *Server) Snapshot(dir string) (err error) {
	if err := s.etcd.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() {
		if cont := s.etcd.signal(syscall.SIGCONT); err == nil {
			err = cont
		}
	}()
	if err := os.CopyFS(dir, os.DirFS(s.path("etcd"))); err != nil {
		return fmt.Errorf("snapshot of etcd: %w", err)
	}
	return nil
}

// Restore kills both servers, puts a Snapshot in the place of etcd's data and
// starts both again: resourceVersions go back in time, as after a restore
// without --bump-revision.
func (s *Server) Restore(ctx context.Context, dir string) error {
	s.Kill()
	s.etcd.Kill()
	data := s.path("etcd")
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := os.CopyFS(data, os.DirFS(dir)); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := os.Chmod(data, 0o700); err != nil { // etcd insists
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := s.startEtcd(ctx); err != nil {
		return err
	}
	return s.startAPIServer(ctx)
}

func (p *Process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to %s: %w", sig, p.name, err)
	}
	return nil
}
