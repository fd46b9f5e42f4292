package apiserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a child that dies with this process.
type Process struct {
	name    string
	cmd     *exec.Cmd
	logPath string
	stop    sync.Once
	done    chan struct{} // closed when the child is gone and err is set
	err     error
}

// StartProcess starts a command whose output is appended to logPath. cmd's
// Stdout and Stderr are used where they are set.
func StartProcess(name string, cmd *exec.Cmd, logPath string) (*Process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if cmd.Stderr == nil {
		cmd.Stderr = log
	}
	cmd.SysProcAttr = childAttributes()
	p := &Process{name: name, cmd: cmd, logPath: logPath, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ties "die with the parent" to the thread that started the
		// child (golang.org/issue/27505), so that thread waits here until the
		// child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Pid is the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the child ended; call it after Done.
func (p *Process) Err() error { return p.err }

// Kill ends the child with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it is gone already
	<-p.done
}

// Stop asks the child to end and kills it when it has not after grace.
func (p *Process) Stop(grace time.Duration) {
	p.stop.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(grace):
			p.Kill()
		}
	})
	<-p.done
}

// LogTail returns the last lines of the child's output, most of the noise of a
// healthy start left out.
func (p *Process) LogTail(lines int) string {
	data, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("--- end of %s ---\n%s\n", filepath.Base(p.logPath), strings.Join(all, "\n"))
}

// await calls ok every 20 ms until it returns nil, the child is gone or ctx ends.
func (p *Process) await(ctx context.Context, what string, ok func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s: %s ended while waiting (%v)\n%s", what, p.name, p.err, p.LogTail(40))
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; last answer: %v\n%s", what, context.Cause(ctx), err, p.LogTail(40))
		case <-tick.C:
		}
	}
}
