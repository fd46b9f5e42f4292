package listwatch

import (
	"crypto/sha256"
	"crypto/x509"
	"runtime"
	"sync"
	"weak"
)

// rootPools are the pools of roots that some transport has, by the hash of their PEM, so that a thousand transports to one
// server have one. Pools are not changed once they are made. Who drops the last use of a pool drops it from here, too.
//
// It is one for the process, as crypto/tls's own cache of certificates is, and weak as that is: nothing can be seen of it
// but the memory that it saves.
var rootPools = struct {
	sync.Mutex
	by map[[sha256.Size]byte]weak.Pointer[x509.CertPool]
}{by: make(map[[sha256.Size]byte]weak.Pointer[x509.CertPool])}

// samePool returns a pool with what made has, the roots in data.
func samePool(made *x509.CertPool, data []byte) *x509.CertPool {
	sum := sha256.Sum256(data)
	rootPools.Lock()
	defer rootPools.Unlock()
	if p := rootPools.by[sum].Value(); p != nil && p.Equal(made) {
		return p
	}
	rootPools.by[sum] = weak.Make(made)
	runtime.AddCleanup(made, forgetPool, sum)
	return made
}

// forgetPool forgets a pool that is no more, unless another one has its place.
func forgetPool(sum [sha256.Size]byte) {
	rootPools.Lock()
	defer rootPools.Unlock()
	if rootPools.by[sum].Value() == nil {
		delete(rootPools.by, sum)
	}
}
