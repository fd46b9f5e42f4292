package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// User is one of the users of the token file.
type User string

// The users that every Server knows, beside the anonymous one.
const (
	Admin     User = "admin"              // group system:masters, may do anything
	Weak      User = "weak"               // no group, no rights
	Node      User = "system:node:node-a" // group system:nodes, the kubelet of node-a
	Anonymous User = ""                   // sends no token
)

// groups are what the token file says of each user.
var groups = map[User]string{Admin: "system:masters", Weak: "", Node: "system:nodes"}

// writeTokens writes the token file of kube-apiserver (token,user,uid,"groups")
// and returns each user's token.
func writeTokens(path string) (map[User]string, error) {
	tokens := make(map[User]string)
	var lines strings.Builder
	for _, user := range []User{Admin, Weak, Node} {
		tokens[user] = newToken()
		fmt.Fprintf(&lines, "%s,%s,uid-%s,%q\n", tokens[user], user, user, groups[user])
	}
	return tokens, os.WriteFile(path, []byte(lines.String()), 0o600)
}

func newToken() string {
	raw := make([]byte, 16)
	rand.Read(raw) // never fails, see its documentation
	return hex.EncodeToString(raw)
}

// writeServiceAccountKey makes the key pair that kube-apiserver insists on,
// also where no service account is ever used.
func writeServiceAccountKey(dir string) (path string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "service-account.key")
	return path, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
