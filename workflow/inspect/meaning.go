package inspect

import (
	"regexp"
	"strings"
)

// A meaning says what errors that match a pattern mean, and what to do. Names with $ are groups of the pattern.
type meaning struct {
	pattern *regexp.Regexp
	is      Pattern
	what    string
	todo    string
}

// text returns the meaning and what to do in one sentence.
func (m *meaning) text() string { return m.what + ": " + m.todo }

// The patterns of findings about errors that have a meaning.
const (
	MissingRights   Pattern = "missing rights"
	MissingKind     Pattern = "missing kind"
	SilentWebhook   Pattern = "silent webhook"
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
)

// meanings are of the errors that Kubernetes, Helm, shells and the Go libraries write. The first match counts.
var meanings = []meaning{
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
		`its CRD is not installed, or was deleted. Check: kubectl api-resources | grep $kind`,
	},
	{
		regexp.MustCompile(`failed calling webhook "(?P<name>[^"]+)"`), SilentWebhook,
		"the admission webhook $name does not respond, so the API server rejects the request",
		"check the pods and the Service of the webhook. If its operator is stopped: addon-operator webhooks withdraw",
	},
	{
		regexp.MustCompile(`admission webhook "(?P<name>[^"]+)" denied the request`), RefusingWebhook,
		"the policy of the admission webhook $name rejected the object",
		"change the object or the policy",
	},
	{
		regexp.MustCompile(`certificate has expired or is not yet valid`), BadCertificate,
		"a certificate is outside of its validity",
		"renew it. If it is valid, the clock of the node is wrong",
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
		"kubectl describe resourcequota $quota",
	},
	{
		regexp.MustCompile(`ImagePullBackOff|ErrImagePull`), MissingImage,
		"a node cannot pull an image",
		"check its name and tag, the credentials, and the way to the registry",
	},
	{
		regexp.MustCompile(`timed out waiting for the condition`), NotReady,
		"Helm waited for objects that did not become ready, or for a Job of a Helm hook",
		"kubectl get events",
	},
	{
		regexp.MustCompile(`(?:^|: )signal: killed|OOMKilled|exit status 137`), KilledProcess,
		"something outside of the operator killed the process, most often the kernel because the pod reached its memory limit",
		"raise the limit, or have the hook use less memory",
	},
	{
		regexp.MustCompile(`no space left on device`), FullDisk,
		"a disk is full",
		"make room, or enlarge the volume. In the pod, /tmp is memory; the volume of the store is at the path that status shows",
	},
	{
		// As bash, dash and busybox write it.
		regexp.MustCompile(`(?P<bash>[\w.+-]+): command not found|: (?:line )?\d+: (?P<dash>[\w.+-]+): not found|/sh: (?P<busybox>[\w.+-]+): not found`), MissingCommand,
		"the image of the operator has no command $bash$dash$busybox",
		"add it to the image, or to PATH",
	},
	{
		regexp.MustCompile(`no such host|[Cc]ould not resolve host|Temporary failure in name resolution`), UnknownHost,
		"DNS does not know the host",
		"check its name, the Service, and CoreDNS",
	},
	{
		regexp.MustCompile(`connection refused|[Ff]ailed to connect|i/o timeout|no route to host`), SilentServer,
		"a server that it calls does not respond",
		"check the pods behind the Service, and NetworkPolicies",
	},
	{
		regexp.MustCompile(`the object has been modified; please apply your changes to the latest version`), Conflict,
		"another client changed the object at the same time",
		"if it happens again and again, two clients change the same fields; kubectl get -o yaml --show-managed-fields names them",
	},
	{
		regexp.MustCompile(`[Tt]oo [Mm]any [Rr]equests`), TooManyRequests,
		"a server limits the rate of requests",
		"if it is the API server, check its flow control (PriorityLevelConfiguration)",
	},
}

// meaningOf returns what an error means, with the names that it has; nil if it is not known.
func meaningOf(text string) *meaning {
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range meanings {
		if at := m.pattern.FindStringSubmatchIndex(text); at != nil {
			m.what = string(m.pattern.ExpandString(nil, m.what, text, at))
			m.todo = string(m.pattern.ExpandString(nil, m.todo, text, at))
			return &m
		}
	}
	return nil
}
