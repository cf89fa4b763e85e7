package helm

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// checksumLabel is a label of each record that the operator writes. Its value is the checksum of the revision's
	// manifest.
	checksumLabel = "moduleChecksum"

	// checksumValue is the key of a top-level value of a release. Older versions of flant/addon-operator stored the
	// checksum in this value.
	checksumValue = "_addonOperatorModuleChecksum"
)

// maintenanceLabel is a label of the objects of a release in maintenance mode, with an empty value. Each record that
// the operator writes has it, too, with the value true or false.
const maintenanceLabel = "maintenance.deckhouse.io/no-resource-reconciliation"

// addonLabel is a label of each record that the operator writes. Its value is true if the chart of the revision is that
// of a registered addon.
const addonLabel = "addons.kyma-project.io/addon"

// Labels that Helm sets on each record.
const (
	ownerLabel   = "owner"
	nameLabel    = "name"
	statusLabel  = "status"
	versionLabel = "version"
)

// record is one revision of a release. Its fields come from the labels of the Secret or ConfigMap in which Helm stores
// the revision; the data of this object is not decoded.
type record struct {
	release    string
	revision   int
	status     release.Status
	checksum   string
	maintained bool
	addon      bool

	object metav1.PartialObjectMetadata
}

// records gives access to the Secrets or ConfigMaps in which Helm stores the revisions of all releases in the
// namespace.
type records struct {
	objects    metadata.ResourceInterface
	kind       string // Secret or ConfigMap, for messages
	types      string // field selector that excludes objects that are not release records
	driver     driver.Driver
	seen       *version
	historyMax int // maximum number of stored revisions of a release; zero means no limit
	log        func(format string, args ...any)
}

// newRecords returns access to the records that are stored in Secrets or in ConfigMaps. o.Driver chooses
// between them.
func newRecords(c *Client, config *rest.Config, transport *http.Client, o Options) (*records, error) {
	encoded := rest.CopyConfig(config)
	encoded.ContentType = "application/vnd.kubernetes.protobuf"
	encoded.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	core, err := typedcorev1.NewForConfigAndClient(encoded, transport)
	if err != nil {
		return nil, fmt.Errorf("helm: make a client for release records: %w", err)
	}

	seen := &version{}
	switch o.Driver {
	case "", "secret", "secrets":
		d := driver.NewSecrets(newSecrets(core.Secrets(c.namespace), seen))
		d.Log = c.log
		return &records{
			objects: c.metadata.Resource(coreResource("secrets")).Namespace(c.namespace),
			kind:    "Secret", types: "type=helm.sh/release.v1", driver: d, seen: seen, historyMax: o.HistoryMax, log: c.log,
		}, nil
	case "configmap", "configmaps":
		d := driver.NewConfigMaps(newConfigMaps(core.ConfigMaps(c.namespace), seen))
		d.Log = c.log
		return &records{
			objects: c.metadata.Resource(coreResource("configmaps")).Namespace(c.namespace),
			kind:    "ConfigMap", driver: d, seen: seen, historyMax: o.HistoryMax, log: c.log,
		}, nil
	default:
		return nil, fmt.Errorf("helm: HELM_DRIVER %q is not supported: set secret or configmap", o.Driver)
	}
}

func coreResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: name}
}

// storage returns a new Helm storage for the records. Actions cannot share one, because they modify it.
func (s *records) storage() *storage.Storage {
	st := storage.Init(s.driver)
	st.MaxHistory = s.historyMax
	st.Log = s.log
	return st
}

// of returns the revisions of one release, newest first. If the release does not exist, the result is empty. It sends
// one request.
func (s *records) of(ctx context.Context, name string) ([]record, error) {
	found, err := s.list(ctx, labels.Set{ownerLabel: "helm", nameLabel: name})
	if err != nil {
		return nil, fmt.Errorf("look for release %q: %w", name, err)
	}
	return found, nil
}

// all returns the revisions of all releases, sorted by release. The revisions of one release are sorted newest first.
// It sends one request.
func (s *records) all(ctx context.Context) ([]record, error) {
	found, err := s.list(ctx, labels.Set{ownerLabel: "helm"})
	if err != nil {
		return nil, fmt.Errorf("list releases: %w", err)
	}
	return found, nil
}

// list returns the records that match selector. The result shows all earlier writes of this client. It also shows all
// writes that other clients made before the first list of this client. Their later writes can be missing.
func (s *records) list(ctx context.Context, selector labels.Set) ([]record, error) {
	options := metav1.ListOptions{LabelSelector: selector.String(), FieldSelector: s.types}
	listed, err := listNotBefore(s.seen, options, func(o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return s.objects.List(ctx, o)
	})
	if err != nil {
		return nil, fmt.Errorf("list %ss with labels %s: %w", s.kind, selector, err)
	}
	found := make([]record, 0, len(listed.Items))
	for _, o := range listed.Items {
		revision, err := strconv.Atoi(o.Labels[versionLabel])
		if err != nil || o.Labels[nameLabel] == "" {
			s.log("ignoring %s %s/%s, which is labelled as a release record but has no valid name or version", s.kind, o.Namespace, o.Name)
			continue
		}
		found = append(found, record{
			release:    o.Labels[nameLabel],
			revision:   revision,
			status:     release.Status(o.Labels[statusLabel]),
			checksum:   o.Labels[checksumLabel],
			maintained: o.Labels[maintenanceLabel] == "true",
			addon:      o.Labels[addonLabel] == "true",
			object:     o,
		})
	}
	slices.SortFunc(found, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.release, b.release), cmp.Compare(b.revision, a.revision))
	})
	return found, nil
}

// remove deletes the record of a revision. If the record has changed since it was read, remove
// returns an error.
func (s *records) remove(ctx context.Context, r record) error {
	defer s.seen.forget()
	err := s.objects.Delete(ctx, r.object.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &r.object.UID, ResourceVersion: &r.object.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove %s revision %d of release %q (%s %s/%s): %w",
			r.status, r.revision, r.release, s.kind, r.object.Namespace, r.object.Name, err)
	}
	return nil
}

// removeRest deletes the records that an uninstall has left, because Helm could not decode them.
func (s *records) removeRest(ctx context.Context, name string) error {
	rest, err := s.of(ctx, name)
	if err != nil {
		return err
	}
	for _, r := range rest {
		s.log("release %q: revision %d cannot be decoded: removing its record too", name, r.revision)
		if err := s.remove(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// olderChecksum returns the checksum that older versions of flant/addon-operator have stored in the values of a
// revision, or "" if the values contain none. It reads and decodes the revision.
func (s *records) olderChecksum(r record) (string, error) {
	found, err := s.driver.Query(map[string]string{
		ownerLabel: "helm", nameLabel: r.release, versionLabel: strconv.Itoa(r.revision),
	})
	if err != nil {
		return "", fmt.Errorf("read revision %d of release %q: %w", r.revision, r.release, err)
	}
	for _, decoded := range found {
		if checksum, ok := decoded.Config[checksumValue].(string); ok {
			return checksum, nil
		}
	}
	return "", nil
}
