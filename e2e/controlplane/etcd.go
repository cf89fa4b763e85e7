package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts an etcd with one member and its data in dir, and waits until it accepts writes. etcd listens on a
// free port for clients. It listens on no port for peers, because a single member has no peers.
func startEtcd(ctx context.Context, dir string) (*embed.Etcd, error) {
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "error"
	cfg.ListenClientUrls = anyPort
	cfg.AdvertiseClientUrls = anyPort
	cfg.ListenPeerUrls = nil
	cfg.EnableGRPCGateway = false
	// The data is disposable, so it needs no fsync. Elections can be short, because a single member need not wait for
	// others.
	cfg.UnsafeNoFsync = true
	cfg.TickMs = 10
	cfg.ElectionMs = 100

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
		return server, nil
	case <-server.Server.StopNotify():
		err = errors.New("it stopped while it started")
	case err = <-server.Err():
	case <-time.After(time.Minute):
		err = errors.New("no leader within a minute")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	server.Close()
	return nil, err
}

// endpoint returns the URL at which server accepts clients.
func endpoint(server *embed.Etcd) string {
	return fmt.Sprintf("http://%s", server.Clients[0].Addr())
}

// serveEtcd waits until ctx ends, or until server fails. Then it closes server.
func serveEtcd(ctx context.Context, server *embed.Etcd) error {
	var err error
	select {
	case <-ctx.Done():
	case err = <-server.Err():
	case <-server.Server.StopNotify():
		err = errors.New("the member stopped")
	}
	server.Close()
	return err
}
