package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// versionInfo is what a bug report should say of the binary.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Time     string `json:"time,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	ClientGo string `json:"clientGo,omitempty"`
}

// readVersion takes what the Go tool wrote into the binary.
func readVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "vcs.time":
			v.Time = s.Value
		}
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/client-go" {
			v.ClientGo = m.Version
		}
	}
	return v
}

// userAgent is how requests name us.
func userAgent() string {
	v := readVersion()
	return fmt.Sprintf("nodewatch/%s (%s)", strings.Trim(v.Version, "()"), v.Platform)
}

func newVersion(s *streams) *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program",
		Long:  "Print the version of the program, the revision it was built from, and the Go and client-go it was built with.",
		Args:  onlyFlags,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if format.value == "json" {
				if err := json.NewEncoder(s.out).Encode(v); err != nil {
					return &failedError{err: err}
				}
				return nil
			}
			line := "nodewatch " + v.Version
			if v.Revision != "" {
				line += " " + v.Revision
			}
			if v.Modified {
				line += " (modified)"
			}
			line += fmt.Sprintf(" %s %s", v.Go, v.Platform)
			if v.ClientGo != "" {
				line += " client-go " + v.ClientGo
			}
			if _, err := fmt.Fprintln(s.out, line); err != nil {
				return &failedError{err: err}
			}
			return nil
		},
	}
	g := newGroup("Output")
	g.set.VarP(format, "output", "o", "form of the output")
	addGroups(cmd, g)
	completeChoices(cmd)
	return cmd
}
