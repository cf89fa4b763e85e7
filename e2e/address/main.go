// Command address prints the local IP address from which this machine connects to the API server of $KUBECONFIG. Use
// the address in URLs that the API server must be able to reach. The command sends no packets to the API server.
package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	host, err := address(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "address:", err)
		os.Exit(1)
	}
	fmt.Println(host)
}

func address(ctx context.Context) (string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return "", err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(server.Hostname(), port))
	if err != nil {
		return "", fmt.Errorf("API server %s: %w", config.Host, err)
	}
	defer connection.Close() // nothing was written
	host, _, err := net.SplitHostPort(connection.LocalAddr().String())
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // the form in URLs
	}
	return host, err
}
