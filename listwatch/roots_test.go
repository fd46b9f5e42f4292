package listwatch

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// rootsOf returns the pool that the next request of lw trusts.
func rootsOf(lw *ListerWatcher[*corev1.Pod]) *x509.CertPool {
	return lw.trips.base.transport().TLSClientConfig.RootCAs
}

func poolOf(t testing.TB, data []byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		t.Fatal("no certificate")
	}
	return pool
}

// Transports with the same roots have one pool, whether these come as bytes or from a file; those with others have not. It
// stays so when the file changes.
func TestRootsAreShared(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	caFile := write(t, filepath.Join(t.TempDir(), "ca.pem"), first.pem)
	watcher := func(data []byte, file string) *ListerWatcher[*corev1.Pod] {
		return newFor[*corev1.Pod](t, "https://127.0.0.1:1", func(c *Config) { c.REST.CAData, c.REST.CAFile = data, file })
	}
	one, same, other := watcher(first.pem, ""), watcher(bytes.Clone(first.pem), ""), watcher(second.pem, "")
	ofFile, alsoOfFile := watcher(nil, caFile), watcher(nil, caFile)
	both := watcher(append(bytes.Clone(first.pem), second.pem...), "")
	if rootsOf(one) != rootsOf(same) || rootsOf(one) != rootsOf(ofFile) {
		t.Error("the same roots are in several pools")
	}
	if rootsOf(one) == rootsOf(other) || rootsOf(one) == rootsOf(both) || rootsOf(other) == rootsOf(both) {
		t.Error("different roots are in one pool")
	}
	if !rootsOf(one).Equal(poolOf(t, first.pem)) || !rootsOf(other).Equal(poolOf(t, second.pem)) {
		t.Error("the roots are not those of the configuration")
	}
	write(t, caFile, second.pem)
	if rootsOf(ofFile) != rootsOf(other) || rootsOf(alsoOfFile) != rootsOf(other) {
		t.Error("after the file changed the roots are not those of who has the same")
	}
	if rootsOf(one) != rootsOf(same) || !rootsOf(one).Equal(poolOf(t, first.pem)) {
		t.Error("the change of a file reached a transport whose roots are not from there")
	}
}

// Without roots of its own a configuration has the system's, which are none's to share.
func TestSystemRoots(t *testing.T) {
	if lw := newFor[*corev1.Pod](t, "https://127.0.0.1:1", nil); rootsOf(lw) != nil {
		t.Error("roots that nobody named")
	}
}

// A pool with other roots under the same hash, and one that is no more, are not taken.
func TestSamePool(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	data := []byte(t.Name())
	held := samePool(poolOf(t, first.pem), data)
	if made := poolOf(t, second.pem); samePool(made, data) != made {
		t.Error("a pool with other roots is taken for the same")
	}
	runtime.KeepAlive(held)

	gone := []byte(t.Name() + " gone")
	sum := sha256.Sum256(gone)
	samePool(poolOf(t, first.pem), gone)
	known := func() bool {
		rootPools.Lock()
		defer rootPools.Unlock()
		_, ok := rootPools.by[sum]
		return ok
	}
	if !known() {
		t.Fatal("a pool is not noted")
	}
	for range 1000 {
		runtime.GC()
		runtime.Gosched() // cleanups run in a goroutine of the runtime
		if !known() {
			break
		}
	}
	if known() {
		t.Error("a pool that nobody has is not forgotten")
	}
	forgetPool(sum) // again, and of one that is in use
	again := samePool(poolOf(t, first.pem), gone)
	forgetPool(sum)
	if samePool(poolOf(t, first.pem), gone) != again {
		t.Error("a pool in use was forgotten")
	}
}

// Who asks at the same time gets the same.
func TestSamePoolOfGoroutines(t *testing.T) {
	ca := newAuthority(t, "ca")
	made := make([]*x509.CertPool, 8)
	for i := range made {
		made[i] = poolOf(t, ca.pem)
	}
	var wg sync.WaitGroup
	got := make([]*x509.CertPool, len(made))
	for i := range got {
		wg.Go(func() { got[i] = samePool(made[i], ca.pem) })
	}
	wg.Wait()
	for i := range got {
		if got[i] != got[0] {
			t.Fatal("two pools for one hash")
		}
	}
}
