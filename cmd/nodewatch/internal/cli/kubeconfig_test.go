package cli

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	client := &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}
	for range 2 { // the second time it replaces its own
		if err := writeKubeconfig(path, client); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %o", info.Mode().Perm())
	}
	got, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != client.Host || got.BearerToken != "t" || string(got.CAData) != "ca" {
		t.Errorf("read back: %+v", got)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("files left: %v %v", left, err)
	}
	removeKubeconfig(path)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after removal: %v", err)
	}
}

// TestForeignFiles: what serve did not write is neither replaced nor removed.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	file, link, folder := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "folder")
	ours := filepath.Join(dir, "ours")
	if err := os.WriteFile(file, []byte("apiVersion: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeKubeconfig(ours, &rest.Config{}); err != nil {
		t.Fatal(err)
	}
	// A link to a file of ours could be changed to another before it is written.
	if err := os.Symlink(ours, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link, folder} {
		if err := writeKubeconfig(path, &rest.Config{}); err == nil {
			t.Errorf("%s was replaced", path)
		}
		removeKubeconfig(path)
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s was removed: %v", path, err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "apiVersion: v1\n" {
		t.Errorf("the file is %q now, %v", data, err)
	}
}
