//go:build unix && !linux

package apiserver

import "syscall"

// childAttributes leaves a child in the test's process group, so that what
// ends the group ends the child: there is no signal on a parent's death here.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
