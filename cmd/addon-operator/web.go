package main

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/webui"
)

// listenWeb listens for the web page. It returns nil where the page is switched off or the port is taken: the commands show
// the same.
func (o *operator) listenWeb(ctx context.Context) net.Listener {
	address := o.settings.Web.Address
	if address == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		o.log.Warn().Err(err).Msg("the web page is not served; choose another address with --web-listen-address")
		return nil
	}
	return l
}

// webPage serves the web page to this host.
func (o *operator) webPage() http.Handler {
	return debugapi.LocalOnly(webui.Handler(webui.Options{
		API: o.debugAPI().Routes(), Commits: o.changes.Commits, Graphs: debugapi.Graphs, Version: version,
		Process: strconv.FormatInt(o.began.UnixNano(), 36), Actions: o.settings.Web.Actions,
	}))
}
