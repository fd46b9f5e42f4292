// Package e2e holds the end-to-end tests of nodewatch: the same suites run
// against a real kube-apiserver with its etcd and against listwatchtest.
// README.md says how to run them and how to add a case.
package e2e
