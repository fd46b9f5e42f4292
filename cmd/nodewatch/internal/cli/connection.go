package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection is how to reach the API server: kubectl's flags, and a token file.
type connection struct {
	flags     *genericclioptions.ConfigFlags
	tokenFile string
}

func (c *connection) group() flagGroup {
	g := newGroup("Connection (as kubectl; with none of them: kubeconfig, then in-cluster)")
	c.flags = genericclioptions.NewConfigFlags(false)
	c.flags.CacheDir = nil  // there is no discovery
	c.flags.Timeout = nil   // --request-timeout is ours: kubectl's would end a watch
	c.flags.Namespace = nil // -n is ours: its default is not the context's namespace
	c.flags.AddFlags(g.set)
	g.set.StringVar(&c.tokenFile, "token-file", "", "file with a bearer token; it is read again as the token is renewed")
	return g
}

// changed returns the first connection flag that was given, "" for none.
func (c *connection) changed(isSet func(name string) bool) string {
	for _, name := range []string{"server", "kubeconfig", "context", "cluster", "user", "token", "token-file",
		"certificate-authority", "client-certificate", "client-key", "insecure-skip-tls-verify", "tls-server-name", "proxy-url"} {
		if isSet(name) {
			return name
		}
	}
	return ""
}

// validate finds what is wrong with the flags themselves. No message has the
// value of a flag that can hold a secret.
func (c *connection) validate() error {
	if *c.flags.BearerToken != "" && c.tokenFile != "" {
		return errors.New("--token and --token-file are both given: use one")
	}
	for flag, value := range map[string]string{"--server": *c.flags.APIServer, "--proxy-url": *c.flags.ProxyURL} {
		if value == "" {
			continue
		}
		// HOST:PORT alone is what kubectl takes too.
		if !strings.Contains(value, "://") {
			value = "http://" + value
		}
		u, err := url.Parse(value)
		if err != nil || u.Host == "" {
			// A parse error repeats the URL, and a URL can hold a password.
			return fmt.Errorf("%s is not a URL like https://host:6443", flag)
		}
		if u.User != nil && flag == "--server" {
			return errors.New("--server has user info in it, which would end up in logs: use --token, --token-file or a kubeconfig")
		}
	}
	return nil
}

// restConfig reads the kubeconfig, or what a pod has, and applies the flags.
func (c *connection) restConfig() (*rest.Config, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot tell which API server to ask: %s", c.clean(err))
	}
	if err := c.checkHost(config.Host); err != nil {
		return nil, err
	}
	config.UserAgent = userAgent()
	// What is given on the command line is meant. clientcmd drops a token where
	// the server is not https://, without a word.
	if token := *c.flags.BearerToken; token != "" {
		config.BearerToken, config.BearerTokenFile = token, ""
	}
	if c.tokenFile != "" {
		if _, err := os.ReadFile(c.tokenFile); err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		// The file is the only credential then, as --token is.
		config.BearerToken, config.BearerTokenFile = "", c.tokenFile
		config.Username, config.Password = "", ""
		config.AuthProvider, config.ExecProvider = nil, nil
	}
	return config, nil
}

// checkHost finds what clientcmd lets pass: that nobody named a server, and a
// password in the URL of a kubeconfig.
func (c *connection) checkHost(host string) error {
	if u, err := url.Parse(host); err == nil && u.User != nil {
		return errors.New("the server's URL in the kubeconfig has user info in it, which would end up in logs: write the name and the password as username and password of a user")
	}
	if host != clientcmd.ClusterDefaults.Server || *c.flags.APIServer != "" || os.Getenv(masterVariable) != "" {
		return nil
	}
	// clientcmd means localhost:8080 where nothing says otherwise, which no API
	// server has listened on for years.
	raw, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return errors.New(c.clean(err))
	}
	name, cluster := cmp.Or(*c.flags.Context, raw.CurrentContext), *c.flags.ClusterName
	if context := raw.Contexts[name]; context != nil && cluster == "" {
		cluster = context.Cluster
	}
	switch known := raw.Clusters[cluster]; {
	case known != nil && known.Server != "":
		return nil // it is written there
	case known != nil:
		return fmt.Errorf("cannot tell which API server to ask: the cluster %q of the kubeconfig has no server", cluster)
	case name == "" && len(raw.Contexts) > 0:
		return errors.New("cannot tell which API server to ask: the kubeconfig has no current context, pass --context NAME (kubectl config get-contexts lists them)")
	}
	return errors.New("cannot tell which API server to ask: there is no --server, no kubeconfig with a cluster (--kubeconfig, $KUBECONFIG, ~/.kube/config), " +
		"and this is no pod with a service account (no cluster at hand? try --demo)")
}

// masterVariable names the server where the kubeconfig does not; clientcmd reads it.
const masterVariable = "KUBERNETES_MASTER"

// connectionError says what is wrong with a connection in the words of the
// command line: the libraries' messages begin with the field of a Config.
func connectionError(err error) error {
	for _, field := range []string{"listwatch.Config.REST: ", "listwatch.Config: REST.Host: "} {
		if _, text, ok := strings.Cut(err.Error(), field); ok {
			return fmt.Errorf("cannot connect with these credentials and this server: %s", text)
		}
	}
	return err
}

// clean takes the server's URL out of a message of clientcmd's and puts it on one line.
func (c *connection) clean(err error) string {
	text := err.Error()
	for _, secret := range []string{*c.flags.APIServer, *c.flags.ProxyURL, *c.flags.BearerToken} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "...")
		}
	}
	return strings.Join(strings.Fields(text), " ")
}
