package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigMark is the first line of a kubeconfig of ours. A file without it
// belongs to somebody else.
const kubeconfigMark = "# Written by nodewatch serve, which removes it when it ends.\n"

// mayReplace returns an error when there is something at path that serve did not write.
func mayReplace(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ours := false
	if info.Mode().IsRegular() {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		ours = bytes.HasPrefix(data, []byte(kubeconfigMark))
	}
	if !ours {
		return fmt.Errorf("%s is there already and was not written by serve: name another file with --kubeconfig-out", path)
	}
	return nil
}

// writeKubeconfig puts what client has at path, readable for the
// user alone from the first moment, whole or not at all.
func writeKubeconfig(path string, client *rest.Config) error {
	const name = "nodewatch"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: client.Host, CertificateAuthorityData: client.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: client.BearerToken}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".nodewatch-*") // mode 0600
	if err != nil {
		return fmt.Errorf("--kubeconfig-out: no file can be made in %s: %w", filepath.Dir(path), errors.Unwrap(err))
	}
	defer os.Remove(f.Name()) // fails when it was renamed
	_, err = f.Write(append([]byte(kubeconfigMark), data...))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := mayReplace(path); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// removeKubeconfig takes the file away if it is still ours.
func removeKubeconfig(path string) {
	if mayReplace(path) == nil {
		_ = os.Remove(path) // what stays is marked, and is replaced the next time
	}
}
