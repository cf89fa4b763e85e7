package kube

import (
	"context"
	"encoding/json"
	"time"
)

// A caller of [Client.ListNames] can request these versions.
const (
	NewestVersion = newestVersion
	AnyVersion    = anyVersion
)

// ListNames lists source at the version notBefore or later. ListNames returns the names of all objects in the list,
// and the version of the list.
func (c *Client) ListNames(ctx context.Context, source Source, notBefore string) (names []string, version string, err error) {
	begun := func() { names = nil }
	each := func(raw json.RawMessage) error {
		doc, err := readDocument(raw, source)
		if err == nil {
			names = append(names, doc.id.Metadata.Name)
		}
		return err
	}
	version, err = c.list(ctx, source, false, notBefore, begun, each)
	return names, version, err
}

// DeliverVersionsEvery sets the interval at which the watches deliver the current version if nothing changes. The
// default is one minute.
func (h *Watches) DeliverVersionsEvery(d time.Duration) { h.objects.versionEvery = d }

// DecideWithin sets the time for which monitors wait for the preferred version of a group if the kinds of this version
// cannot be read. The default is one minute. Call DecideWithin before monitors are opened.
func (h *Watches) DecideWithin(d time.Duration) { h.undecidedWithin = d }

// KnowDefinitions delivers an empty first list of CustomResourceDefinitions to k.
func (k *Kinds) KnowDefinitions(ctx context.Context) error {
	return (&appearances{Kinds: k}).Listed(ctx, List{View: View{Source: definitionSource}})
}

// Reach reads the kinds in a version of a local group, as if an APIService had announced them.
func (k *Kinds) Reach(ctx context.Context, groupName, version string) {
	k.reach(ctx, group{Group: groupName, Version: version}, nil)
}

// RequestEvery sets the interval at which the kinds of an extension API server are requested again. The default is one
// minute.
func (k *Kinds) RequestEvery(d time.Duration) { k.requestEvery = d }

// Reached returns the number of groups whose kinds k currently requests for callers that wait.
func (k *Kinds) Reached() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.reaching)
}
