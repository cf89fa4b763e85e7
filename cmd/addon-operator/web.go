package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/cmd/addon-operator/webaccess"
	"addon-operator/cmd/addon-operator/webui"
)

// listenWeb listens on the address of the web page. listenWeb returns the listener, and the server that the function
// page returns. If the page is disabled, listenWeb returns nil. If page fails, or if listenWeb cannot listen on the
// address, it logs a warning and returns nil: the operator runs without the page, because commands show the same data.
func listenWeb(ctx context.Context, w *settings.Web, log *zerolog.Logger, page func() (*http.Server, error)) (net.Listener, *http.Server) {
	if w.Address == "" {
		return nil, nil
	}
	server, err := page()
	if err != nil {
		log.Warn().Err(err).Msg("the web page is not served; correct the settings that the error names, and restart the operator")
		return nil, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", w.Address)
	if err != nil {
		log.Warn().Err(err).Msg("the web page is not served; choose another address with --web-listen-address")
		return nil, nil
	}
	if server.TLSConfig != nil {
		l = tls.NewListener(l, server.TLSConfig)
	}
	return l, server
}

// webPage returns the server of the web page. Without a certificate, the server answers only requests that name the
// loopback interface, but every user of this host can see the page and use its enabled buttons.
func (o *operator) webPage() (*http.Server, error) {
	options := webui.Options{
		API: o.debugAPI().Routes(), Commits: o.changes.Commits, Graphs: debugapi.Graphs, Version: version,
		Process: strconv.FormatInt(o.began.UnixNano(), 36), Actions: o.settings.Web.Actions,
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	if !o.settings.Web.Authenticated() {
		server.Handler = debugapi.LocalOnly(webui.Handler(options))
		return server, nil
	}
	certificate, err := webaccess.LoadCertificate(o.settings.Web.CertFile, o.settings.Web.KeyFile)
	if err != nil {
		return nil, err
	}
	// This client sends requests even if the process does not hold the Lease: a standby also serves the page, and needs
	// TokenReviews for it.
	client, err := kubernetes.NewForConfig(rest.CopyConfig(o.leadership.config))
	if err != nil {
		return nil, err
	}
	options.Access = webaccess.New(client, o.settings.Namespace)
	server.Handler, server.TLSConfig = webui.Handler(options), certificate.Config()
	return server, nil
}
