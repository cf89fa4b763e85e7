package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// pageSize is the maximum number of objects in a page of a list. A page is read object by object, so the whole page
	// is never in memory as one text.
	pageSize = 500

	// watchSeconds is the shortest duration that is requested for a watch, in seconds. For each watch, a random
	// duration between watchSeconds and twice as much is requested, so that not all watches end at the same time.
	watchSeconds = 300

	acceptMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	acceptMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

// These are the types of frames in a watch.
const (
	frameAdded    = "ADDED"
	frameModified = "MODIFIED"
	frameDeleted  = "DELETED"
	frameBookmark = "BOOKMARK"
	frameError    = "ERROR"
)

// frame is a message of the API server in a watch.
type frame struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// get returns a GET request for path. If metadataAs is not empty, it is the value of the header Accept.
func (c *Client) get(path string, metadataAs string) *rest.Request {
	request := c.raw.Get().AbsPath(path).MaxRetries(0)
	if metadataAs != "" {
		request.SetHeader("Accept", metadataAs)
	}
	return request
}

// read returns the body of answer. If the API server has answered with an error, read returns this error, with the
// message of the API server.
func read(answer rest.Result) ([]byte, error) {
	if err := answer.Error(); err != nil {
		return nil, err
	}
	return answer.Raw()
}

// identify returns the identity of the object at path. If the object does not exist, apierrors.IsNotFound returns true
// for the error.
func (c *Client) identify(ctx context.Context, path string) (identity, error) {
	var id identity
	text, err := read(c.get(path, acceptMetadata).Do(ctx))
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return id, fmt.Errorf("read the metadata of %s: %w", path, err)
	}
	return id, nil
}

// The versions that a list can request. It can also request a version that the API server has returned before.
const (
	newestVersion = ""  // the newest version at the time of the request
	anyVersion    = "0" // the version that the cache of the API server has
)

// list lists the objects of source at the version notBefore or later, and returns the version of the list. If the API
// server has not reached notBefore, or ends its answer early, list requests the newest version instead, in pages. When
// the API server starts to answer, list calls begun(). Then it calls each(object) for all objects of the list. If list
// must request the objects again, it calls begun() again, and then each(object) for all objects of the new list.
//
// The API server answers a list of newestVersion only when its cache has all changes in etcd. If no object of the kind
// has changed, this takes up to 0.1 s, because the API server waits until etcd confirms that there are no newer
// changes. The API server answers a list of anyVersion at once, from its cache.
func (c *Client) list(ctx context.Context, source Source, metadata bool, notBefore string, begun func(), each func(json.RawMessage) error) (string, error) {
	for restarts := 0; ; restarts++ {
		answered := false
		version, err := c.listPages(ctx, source, metadata, notBefore, func() { answered = true; begun() }, each)
		switch {
		case apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
			notBefore = newestVersion // an API server that was restored from a backup may never reach notBefore
		case err != nil && answered && notBefore != newestVersion && ctx.Err() == nil:
			// The API server ends an answer that takes longer than a minute, for example because filters are slow. The
			// answer for a page takes less time.
			notBefore = newestVersion
		case !apierrors.IsResourceExpired(err): // etcd may compact the version of a long list before its last page is read
			return version, err
		}
		if restarts == 3 {
			return version, err
		}
	}
}

func (c *Client) listPages(ctx context.Context, source Source, metadata bool, notBefore string, begun func(), each func(json.RawMessage) error) (string, error) {
	var from string
	for {
		request := c.get(source.path(), "")
		if from == "" && notBefore != newestVersion {
			request.Param("resourceVersion", notBefore) // no limit here: if a request has a limit, the API server returns exactly this version or an error, but never a later version
		} else {
			request.Param("limit", strconv.Itoa(pageSize))
		}
		if metadata {
			request.SetHeader("Accept", acceptMetadataList)
		}
		setParam(request, "labelSelector", source.Labels)
		setParam(request, "fieldSelector", source.fieldSelector())
		setParam(request, "continue", from)
		body, err := request.Stream(ctx)
		if err != nil {
			return "", err
		}
		if from == "" {
			begun()
		}
		page, err := readPage(body, each)
		err = errors.Join(err, body.Close())
		if err != nil {
			return "", fmt.Errorf("read a list: %w", err)
		}
		if page.Continue == "" {
			return page.ResourceVersion, nil
		}
		from = page.Continue
	}
}

// newest returns the newest version of the collection that contains the objects of source.
func (c *Client) newest(ctx context.Context, source Source) (string, error) {
	body, err := c.newestRequest(source).Stream(ctx)
	if err != nil {
		return "", err
	}
	page, err := readPage(body, func(json.RawMessage) error { return nil })
	return page.ResourceVersion, errors.Join(err, body.Close())
}

// newestRequest returns the request that the method newest sends. If the operator has permission only for one object,
// the request must select the object by its name.
func (c *Client) newestRequest(source Source) *rest.Request {
	request := c.get(source.path(), acceptMetadataList).Param("limit", "1")
	if fields := source.fieldSelector(); source.Labels == "" || strings.Contains(fields, "metadata.name=") {
		setParam(request, "fieldSelector", fields)
	}
	return request
}

// namespaceExists reports whether the namespace exists. It lists the namespace, because an operator that selects
// namespaces by labels has the right to list namespaces, but may not have the right to get one.
func (c *Client) namespaceExists(ctx context.Context, name string) (exists bool, err error) {
	source := Source{Version: "v1", Resource: "namespaces", Kind: namespaceKind, Names: name}
	begun := func() { exists = false }
	each := func(json.RawMessage) error { exists = true; return nil }
	_, err = c.list(ctx, source, true, newestVersion, begun, each)
	return exists, err
}

func setParam(request *rest.Request, name, value string) {
	if value != "" {
		request.Param(name, value)
	}
}

// readPage reads a list or a page of a list from body, and calls each(item) as soon as an item has been read. It
// returns the metadata of the list, which may be in front of the items or behind them.
func readPage(body io.Reader, each func(json.RawMessage) error) (metav1.ListMeta, error) {
	var page metav1.ListMeta
	decoder := json.NewDecoder(body)
	if err := expect(decoder, json.Delim('{')); err != nil {
		return page, err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return page, err
		}
		switch name {
		case "metadata":
			err = decoder.Decode(&page)
		case "items":
			err = readItems(decoder, each)
		default:
			var skipped json.RawMessage
			err = decoder.Decode(&skipped)
		}
		if err != nil {
			return page, err
		}
	}
	return page, expect(decoder, json.Delim('}'))
}

func readItems(decoder *json.Decoder, each func(json.RawMessage) error) error {
	start, err := decoder.Token()
	if err != nil || start == nil { // the API server may write null if there are no items
		return err
	}
	if start != json.Delim('[') {
		return fmt.Errorf("items begin with %v, not an array", start)
	}
	for decoder.More() {
		var item json.RawMessage
		if err := decoder.Decode(&item); err != nil {
			return err
		}
		if err := each(item); err != nil {
			return err
		}
	}
	return expect(decoder, json.Delim(']'))
}

func expect(decoder *json.Decoder, want json.Delim) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("found %v, expected %v", token, want)
	}
	return nil
}

// watch opens a watch of source that starts after version, and returns its frames. The caller must close the result.
func (c *Client) watch(ctx context.Context, source Source, metadata bool, version string) (io.ReadCloser, error) {
	request := c.get(source.path(), "").
		Param("watch", "true").
		Param("allowWatchBookmarks", "true").
		Param("resourceVersion", version).
		Param("timeoutSeconds", strconv.Itoa(watchSeconds+rand.IntN(watchSeconds)))
	if metadata {
		request.SetHeader("Accept", acceptMetadata)
	}
	setParam(request, "labelSelector", source.Labels)
	setParam(request, "fieldSelector", source.fieldSelector())
	return request.Stream(ctx)
}

// statusError returns the error in object, which is the object of an ERROR frame of a watch.
func statusError(object json.RawMessage) error {
	var status metav1.Status
	if err := json.Unmarshal(object, &status); err != nil || status.Code == 0 {
		return fmt.Errorf("the server ended the watch: %s", object)
	}
	if status.Code == http.StatusGone && status.Reason == "" {
		status.Reason = metav1.StatusReasonExpired
	}
	return &apierrors.StatusError{ErrStatus: status}
}
