package main

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is where objects are read and changed. It is connected before a verb runs.
type cluster struct {
	kubeconfig string
	namespace  string
	selector   string // of labels, for a list
	server     string // URL of the API server

	client dynamic.Interface
	mapper meta.RESTMapper
}

func (c *cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w; is make run running?", c.kubeconfig, err)
	}
	c.server = config.Host
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	cached := memory.NewMemCacheClient(kinds)
	c.mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	return nil
}

// of returns the client for o, after giving o its namespace.
func (c *cluster) of(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return c.client.Resource(mapping.Resource), nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(c.namespace)
	}
	return c.client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}

// named returns the client for a kind as people type it: deployments.apps, deployment, deploy.
func (c *cluster) named(kind string) (dynamic.ResourceInterface, error) {
	resource, group := schema.ParseResourceArg(kind)
	found, err := schema.GroupVersionResource{}, error(nil)
	if resource != nil {
		found, err = c.mapper.ResourceFor(*resource)
	}
	if resource == nil || err != nil {
		found, err = c.mapper.ResourceFor(group.WithVersion(""))
	}
	if err != nil {
		return nil, err
	}
	kinds, err := c.mapper.KindFor(found)
	if err != nil {
		return nil, err
	}
	mapping, err := c.mapper.RESTMapping(kinds.GroupKind(), kinds.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.client.Resource(found).Namespace(c.namespace), nil
	}
	return c.client.Resource(found), nil
}

// address prints the host of this machine's address on the way to the API server. Nothing is sent.
func (c *cluster) address(cmd *cobra.Command, _ []string) error {
	server, err := url.Parse(c.server)
	if err != nil {
		return err
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	connection, err := (&net.Dialer{}).DialContext(cmd.Context(), "udp", net.JoinHostPort(server.Hostname(), port))
	if err != nil {
		return fmt.Errorf("API server %s: %w", c.server, err)
	}
	defer connection.Close() // nothing was written
	host, _, err := net.SplitHostPort(connection.LocalAddr().String())
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // as URLs have it
	}
	if err == nil {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), host)
	}
	return err
}
