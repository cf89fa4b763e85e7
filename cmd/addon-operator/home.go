package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cenkalti/backoff/v4"

	"addon-operator/internal/kube"
	"addon-operator/store"
)

// clusterWait bounds how long a start waits to be told which cluster it is in.
const clusterWait = 5 * time.Second

// settle sees that the open store belongs to the cluster the operator is in. One
// that belongs to another is renamed and a new one created. Where the API server
// is away, awaitCluster looks later.
func (o *operator) settle(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, clusterWait)
	defer cancel()
	id, err := o.client.ClusterID(asking)
	if kube.IsRefused(err) {
		o.log.Warn().Err(err).Msg("it is not known which cluster this is; grant get of namespace kube-system")
		return nil
	}
	if err != nil {
		o.log.Warn().Err(err).Msg("the API server cannot be asked now; the operator starts and goes on when it answers")
		return nil
	}
	other, err := o.belong(ctx, id)
	if err != nil || other == "" {
		return err
	}
	aside, err := o.renameStore(other)
	if err != nil {
		return err
	}
	o.log.Error().Str("store", o.settings.Store).Str("aside", aside).Str("storeCluster", other).Str("cluster", id).
		Msg("the store belongs to another cluster: it was renamed, and the operator starts with an empty one")
	if err := o.openStore(ctx); err != nil {
		return err
	}
	_, err = o.belong(ctx, id)
	return err
}

// belong notes that the store belongs to the cluster id, unless it belongs to
// another, whose id it returns.
func (o *operator) belong(ctx context.Context, id string) (other string, err error) {
	err = o.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		startup, _, err := store.Load[store.Startup](tx, store.StartupKey())
		switch {
		case err != nil:
			return err
		case startup.Cluster == id:
			return nil
		case startup.Cluster != "":
			other = startup.Cluster
			return nil
		}
		startup.Cluster = id
		return store.Save(tx, store.StartupKey(), startup)
	})
	if err == nil && other == "" {
		o.cluster = id
	}
	return other, err
}

// renameStore closes the store and renames its file to a name that does not exist.
func (o *operator) renameStore(cluster string) (string, error) {
	if err := o.db.Close(); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		path := fmt.Sprintf("%s.cluster-%.8s.%d", o.settings.Store, cluster, n)
		// Unlike a rename, a link never takes the place of a file.
		err := os.Link(o.settings.Store, path)
		switch {
		case err == nil:
			return path, os.Remove(o.settings.Store)
		case !errors.Is(err, os.ErrExist):
			return "", fmt.Errorf("set the store of another cluster aside: %w; move %s away by hand", err, o.settings.Store)
		}
	}
}

// awaitCluster looks to which cluster the store belongs as soon as the API server
// answers, if it did not at start.
func (o *operator) awaitCluster(ctx context.Context) error {
	if o.cluster != "" {
		return nil
	}
	pace := backoff.NewExponentialBackOff(backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	id, err := backoff.RetryWithData(func() (string, error) { return o.client.ClusterID(ctx) }, backoff.WithContext(pace, ctx))
	if err != nil && ctx.Err() == nil {
		return err
	}
	if id == "" { // ctx ended before it was known
		return nil
	}
	other, err := o.belong(ctx, id)
	if err == nil && other != "" {
		return fmt.Errorf("%s belongs to cluster %s, and this is cluster %s: the next start sets it aside", o.settings.Store, other, id)
	}
	if err == nil {
		o.log.Info().Str("cluster", id).Msg("the API server answers")
	}
	return err
}
