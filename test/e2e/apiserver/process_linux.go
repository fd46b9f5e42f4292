package apiserver

import "syscall"

// childAttributes puts a child into its own process group, so that a Ctrl-C
// in the terminal is the test's to handle, and has the kernel kill it when
// the test binary is gone.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
