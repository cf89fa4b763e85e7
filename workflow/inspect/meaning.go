package inspect

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A Meaning explains an error whose cause is known.
type Meaning struct {
	Pattern Pattern `json:"pattern"`
	// The field What describes the cause, and the field Fix says what to do.
	What string `json:"what"`
	Fix  string `json:"fix"`

	// user is the user whose request RBAC has rejected; empty if the error has another cause.
	// byOperator is set if this user is the operator itself.
	user       string
	byOperator bool
	// hook is the hook that answers the webhook of the error, or the first of several hooks that may answer it. binding
	// is the binding of the hook; empty if the binding is not known. The field known is the beginning of a text about
	// the last error of the hook. The three fields are empty if the error names no webhook of this operator.
	hook, binding, known string
	// explained is set if the field What already contains the last error of the hook.
	explained bool
}

// A meaning explains the errors that match a pattern. The field what describes the cause, and the
// field todo says what to do. In both texts, $NAME is replaced by the group NAME of the pattern.
type meaning struct {
	pattern *regexp.Regexp
	is      Pattern
	what    string
	todo    string
}

// Patterns of findings about errors with a known meaning.
const (
	MissingRights   Pattern = "missing rights"
	SharedObject    Pattern = "shared object" // an object belongs to another release
	EndingNamespace Pattern = "ending namespace"
	MissingKind     Pattern = "missing kind"
	SilentWebhook   Pattern = "silent webhook"
	OwnWebhook      Pattern = "own webhook" // a hook of this operator rejects or blocks requests of the operator itself
	RefusingWebhook Pattern = "refusing webhook"
	BadCertificate  Pattern = "certificate"
	ImmutableField  Pattern = "immutable field"
	UsedQuota       Pattern = "quota"
	MissingImage    Pattern = "image"
	NotReady        Pattern = "not ready"
	KilledProcess   Pattern = "killed process"
	FullDisk        Pattern = "full disk"
	MissingCommand  Pattern = "missing command"
	UnknownHost     Pattern = "unknown host"
	SilentServer    Pattern = "silent server"
	Conflict        Pattern = "conflict"
	TooManyRequests Pattern = "too many requests"
	FailingServer   Pattern = "failing API server"
)

// meanings explains errors of Kubernetes, Helm, shells and the Go libraries. The first matching entry is
// used.
var meanings = []meaning{
	{
		regexp.MustCompile(`in namespace (?P<namespace>\S+) because it is being terminated`), EndingNamespace,
		"namespace $namespace is being deleted, and accepts no new objects",
		"if the deletion does not end, an object has a finalizer, or an API service does not respond. See which: kubectl get namespace $namespace -o yaml. Do not remove finalizers unless you know what they protect",
	},
	{
		regexp.MustCompile(`(?P<kind>\w+) "(?P<name>[^"]+)"(?: in namespace ""|(?P<in> in namespace )"(?P<namespace>[^"]+)") exists and cannot be imported into the current release.*"meta.helm.sh/release-name" must equal "[^"]+": current value is "(?P<owner>[^"]+)"`), SharedObject,
		"$kind $name$in$namespace belongs to release $owner: two charts have the same object",
		"remove the object from one of the two charts, or disable the module of one of them",
	},
	{
		regexp.MustCompile(`(?P<kind>\w+) "(?P<name>[^"]+)"(?: in namespace ""|(?P<in> in namespace )"(?P<namespace>[^"]+)") exists and cannot be imported into the current release`), SharedObject,
		"$kind $name$in$namespace exists already, and does not belong to this release",
		"delete the object if the next upgrade may create it again, or give it to the release with the label and annotations that the error names",
	},
	{
		regexp.MustCompile(`User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"(?: in API group "[^"]*")? in the namespace "(?P<namespace>[^"]+)"`), MissingRights,
		`RBAC does not allow $user to $verb $resource in namespace $namespace`,
		`add "$verb" for "$resource" to a Role of $user. Check: kubectl auth can-i $verb $resource -n $namespace --as $user`,
	},
	{
		regexp.MustCompile(`User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"`), MissingRights,
		`RBAC does not allow $user to $verb $resource`,
		`add "$verb" for "$resource" to a ClusterRole of $user. Check: kubectl auth can-i $verb $resource --as $user`,
	},
	{
		regexp.MustCompile(`no matches for kind "(?P<kind>[^"]+)" in version "(?P<version>[^"]+)"`), MissingKind,
		`the cluster does not serve kind $kind of $version`,
		`the CRD of $kind is missing or does not serve this version, or Kubernetes has removed this version. Check: kubectl api-resources | grep $kind`,
	},
	{
		regexp.MustCompile(`failed calling webhook "(?P<name>[^"]+)".*https://(?:[^/\s"'@]*@)?(?P<host>[^/?\s"'@]+)[^\s"']*"?: (?:tls: failed to verify certificate: )?x509: certificate (?:has expired|is not yet valid)`), BadCertificate,
		"the certificate of the admission webhook $name, on the server $host, has expired or is not valid yet, so the API server rejects the request",
		"renew the certificate of $host, the address of the webhook. If it is valid, the clock of a node is wrong",
	},
	{
		regexp.MustCompile(`failed calling webhook "(?P<name>[^"]+)"`), SilentWebhook,
		"the admission webhook $name does not respond, or responds with an error, so the API server rejects the request",
		"check the pods and the Service of the webhook: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml has its address",
	},
	{
		regexp.MustCompile(`ValidatingAdmissionPolicy '(?P<name>[^']+)' with binding '[^']+' denied request`), RefusingWebhook,
		"the ValidatingAdmissionPolicy $name rejected the request",
		"do as the error says, or have the owner of the policy change it: kubectl get validatingadmissionpolicy $name -o yaml",
	},
	{
		regexp.MustCompile(`conversion webhook for (?P<kind>.+?) failed`), SilentWebhook,
		"the conversion webhook for $kind does not respond, or rejects the conversion, so the API server cannot convert the object",
		"check the pods and the Service of the webhook: field spec.conversion of the CustomResourceDefinition has its address",
	},
	{
		regexp.MustCompile(`admission webhook "(?P<name>[^"]+)" denied the request`), RefusingWebhook,
		"the policy of the admission webhook $name rejected the object",
		"change the object or the policy",
	},
	{
		// Go, curl -v, wget and Python name the server in these forms.
		regexp.MustCompile(`(?:https://(?:[^/\s"'@]*@)?(?P<go>[^/?\s"'@]+)[^\s"']*"?: (?:tls: failed to verify certificate: )?x509: |.*Connected to (?P<curl>[\w.-]+) .*|.*cannot verify (?P<wget>[\w.-]+)'s certificate.*|.*host='(?P<python>[^']+)', port=.*)[Cc]ertificate (?:has expired|is not yet valid)`), BadCertificate,
		"the certificate of the server $go$curl$wget$python has expired, or is not valid yet",
		"renew the certificate of $go$curl$wget$python. If it is valid, the clock of a node is wrong",
	},
	{
		regexp.MustCompile(`[Cc]ertificate (?:has expired|is not yet valid)`), BadCertificate,
		"the certificate of a server has expired, or is not valid yet. The error does not name the server",
		"find out which server the step calls, and renew its certificate. If it is valid, the clock of a node is wrong",
	},
	{
		regexp.MustCompile(`certificate signed by unknown authority`), BadCertificate,
		"the client does not trust the CA that signed the certificate of the server",
		"add the CA, or renew the certificate",
	},
	{
		regexp.MustCompile(`field is immutable`), ImmutableField,
		"the object has a field that cannot be changed",
		"undo the change, or delete the object, so that the next upgrade creates it. A deletion can lose data",
	},
	{
		regexp.MustCompile(`exceeded quota: (?P<quota>[^,]+)`), UsedQuota,
		"the ResourceQuota $quota of the namespace is used up",
		"see what uses it up, in the namespace of the object: kubectl describe resourcequota $quota. Then raise the quota, or remove what is not needed",
	},
	{
		regexp.MustCompile(`ImagePullBackOff|ErrImagePull`), MissingImage,
		"a node cannot pull an image",
		"check its name and tag, the credentials, and the way to the registry",
	},
	{
		regexp.MustCompile(`timed out waiting for the condition`), NotReady,
		"Helm, or a command such as kubectl wait, waited for objects that did not become ready, or for a Job that did not end",
		"see why they are not ready: kubectl get events, kubectl describe and kubectl logs of these objects",
	},
	{
		regexp.MustCompile(`(?:^|: )signal: killed|OOMKilled|exit status 137`), KilledProcess,
		"something outside of the operator killed the process, most often the kernel because the pod reached its memory limit",
		"raise the limit, or have the hook use less memory",
	},
	{
		regexp.MustCompile(`no space left on device`), FullDisk,
		"a disk is full",
		"delete files, or enlarge the volume. In the pod, /tmp is memory; the volume of the store is at the path that status shows",
	},
	{
		// bash, dash and busybox write these forms.
		regexp.MustCompile(`(?P<bash>[\w.+-]+): command not found|: (?:line )?\d+: (?P<dash>[\w.+-]+): not found|/sh: (?P<busybox>[\w.+-]+): not found`), MissingCommand,
		"the image of the operator has no command $bash$dash$busybox",
		"add it to the image, or to PATH",
	},
	{
		regexp.MustCompile(`no such host|[Cc]ould not resolve host|Temporary failure in name resolution`), UnknownHost,
		"the host name cannot be resolved",
		"check the host name, the Service, and CoreDNS",
	},
	{
		regexp.MustCompile(`connection refused|[Ff]ailed to connect|i/o timeout|no route to host`), SilentServer,
		"a server that the step calls does not respond",
		"check the pods behind the Service, and NetworkPolicies",
	},
	{
		regexp.MustCompile(`the object has been modified; please apply your changes to the latest version`), Conflict,
		"another client changed the object at the same time",
		"if it happens again and again, two clients keep changing the object; kubectl get -o yaml --show-managed-fields names the clients",
	},
	{
		regexp.MustCompile(`[Tt]oo [Mm]any [Rr]equests`), TooManyRequests,
		"a server limits the rate of requests",
		"if it is the API server, check its flow control (PriorityLevelConfiguration)",
	},
	{
		regexp.MustCompile(`etcdserver: (?P<error>[\w :]*\w)`), FailingServer,
		"etcd, the storage of the API server, failed the request: $error",
		"see whether etcd works now: kubectl get --raw /readyz/etcd. If it says ok, wait: the step is retried by itself. Otherwise see the log of etcd, and whether it has free space and a leader",
	},
	{
		regexp.MustCompile(`an error on the server \(`), FailingServer,
		"the API server failed the request with an internal error",
		"see whether the API server works now: kubectl get --raw /readyz. If it says ok, wait: the step is retried by itself. Otherwise it names the part that fails; see the log of the API server",
	},
}

// meaningOf returns the meaning of an error, with the names from the error filled in; nil if the meaning
// is not known.
func meaningOf(text string) *Meaning {
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range meanings {
		if at := m.pattern.FindStringSubmatchIndex(text); at != nil {
			expand := func(template string) string { return string(m.pattern.ExpandString(nil, template, text, at)) }
			found := &Meaning{Pattern: m.is, What: expand(m.what), Fix: expand(m.todo)}
			if m.is == MissingRights {
				found.user = expand("$user")
			}
			return found
		}
	}
	return nil
}

// ofOperator records in m that the user without rights is the operator itself, not the user of a hook. The parameter
// text is the error of a step that runs no hook. If the error is about a webhook, ofOperator leaves m unchanged,
// because such an error can name the user of another request.
func (m *Meaning) ofOperator(text string) {
	if m != nil && m.user != "" && !strings.Contains(text, "webhook") {
		m.What = strings.Replace(m.What, "allow "+m.user+" to ", "allow the operator itself ("+m.user+") to ", 1)
		m.byOperator = true
	}
}

// reason returns a text that is the same for all errors with the same cause, for example with the same
// missing right.
func (m *Meaning) reason() string {
	if m.user != "" {
		return m.Fix
	}
	return m.What
}

// webhookNamed matches the name of an admission webhook in an error. conversionNamed matches the API
// group and the kind in an error of a conversion webhook.
var (
	webhookNamed    = regexp.MustCompile(`(failed calling|admission) webhook "([^"]+)"`)
	conversionNamed = regexp.MustCompile(`conversion webhook for ([^/\s]+)/[^,\s]+, Kind=(\w+) failed`)
)

// withdrawn says what to do until the hook of an admission webhook is corrected.
const withdrawn = ". To disable all admission webhooks of the operator until it starts again: addon-operator webhooks withdraw"

// ownWebhooks finds the webhooks that hooks of this operator answer.
type ownWebhooks struct {
	tx         *store.Tx
	unreadable *unreadable
}

// meaning is like meaningOf, but names the hook if a hook of this operator answers the webhook in the
// error.
func (w ownWebhooks) meaning(text string) (*Meaning, error) {
	m := meaningOf(text)
	if named := conversionNamed.FindStringSubmatch(text); named != nil {
		own, err := w.ownConversion(named[1], named[2])
		return cmp.Or(own, m), err
	}
	named := webhookNamed.FindStringSubmatch(text)
	if m == nil || named == nil {
		return m, nil
	}
	hook, found, err := w.admissionHook(named[2])
	if err != nil || !found {
		return m, err
	}
	known := "hook " + hook + " of this operator, which answers webhook " + named[2]
	what := known + ","
	if named[1] == "admission" {
		return &Meaning{
			Pattern: OwnWebhook, hook: hook, binding: named[2], known: known, What: what + " rejected the object or failed",
			Fix: "see the log of the operator for the output of " + hook + ". Correct the object, or the hook",
		}, nil
	}
	return &Meaning{
		Pattern: OwnWebhook, hook: hook, binding: named[2], known: known, What: what + " fails or is too slow, or the API server cannot reach the operator: the request is rejected",
		Fix: "see the log of the operator for the output of " + hook + ", and correct the hook" + withdrawn,
	}, nil
}

// ownConversion explains a failing conversion of objects of an API group; nil if no hook of this
// operator converts them.
func (w ownWebhooks) ownConversion(group, kind string) (*Meaning, error) {
	var hooks []string
	for k := range w.tx.Range(store.At(store.Bindings)) {
		b, _, err := load[store.Binding](w.unreadable, k)
		if err != nil {
			return nil, err
		}
		var config struct {
			CRDName string `json:"crdName"`
		}
		if b.Kind != store.Conversion || json.Unmarshal(b.Config, &config) != nil || !strings.HasSuffix(config.CRDName, "."+group) {
			continue
		}
		subject, err := store.ParseBindingKey(k)
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, graph.Subject{Module: subject.Module, Hook: subject.Hook}.String())
	}
	if len(hooks) == 0 {
		return nil, nil
	}
	slices.Sort(hooks)
	hooks = slices.Compact(hooks)
	known := "hook " + strings.Join(hooks, " or ") + " of this operator, which converts " + kind + " objects"
	return &Meaning{
		Pattern: OwnWebhook, hook: hooks[0], known: known, What: known + ", failed, or the API server cannot reach the operator",
		Fix: "see the log of the operator for the output of the hook, and correct the hook. Objects in the stored version can still be read and written",
	}, nil
}

// admissionHook returns the hook of this operator that answers the admission webhook with this name. The result found
// is false if there is no such hook.
func (w ownWebhooks) admissionHook(name string) (hook string, found bool, err error) {
	for k := range w.tx.Range(store.At(store.Bindings)) {
		subject, err := store.ParseBindingKey(k)
		if err != nil {
			return "", false, err
		}
		if subject.Binding != name {
			continue
		}
		b, _, err := load[store.Binding](w.unreadable, k)
		if err != nil {
			return "", false, err
		}
		if b.Kind == store.Validating || b.Kind == store.Mutating {
			return graph.Subject{Module: subject.Module, Hook: subject.Hook}.String(), true, nil
		}
	}
	return "", false, nil
}
