// Package webaccess asks the API server who sends a request to the web page, and what that person
// may see and do. A TokenReview identifies the person. A SubjectAccessReview says whether the RBAC
// rules of the cluster allow a request of the person.
package webaccess

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"addon-operator/cmd/addon-operator/webui"
)

// Group is the API group that RBAC rules must name to give rights for the web page. The API server serves no resources
// of this group.
const Group = "addon-operator"

// keptFor is the time for which a person with a valid token, and an answer about a right, are cached. If a token or a
// right is withdrawn, a person can use it until the cache entry expires.
const keptFor = 15 * time.Second

// mostKept is the maximum number of cached persons, and of cached rights.
const mostKept = 1000

// reviewTimeout is the timeout of a TokenReview or SubjectAccessReview.
const reviewTimeout = 10 * time.Second

// Access asks the API server for the person who sent a request, and for the rights of persons.
// Access is safe for concurrent use.
type Access struct {
	client    kubernetes.Interface
	namespace string
	people    *cache.LRUExpireCache // persons by the digest of their token
	rights    *cache.LRUExpireCache // whether a person has a right, by person and right
}

// New returns an Access that uses client to ask for rights in a namespace.
func New(client kubernetes.Interface, namespace string) *Access {
	return &Access{client: client, namespace: namespace, people: cache.NewLRUExpireCache(mostKept), rights: cache.NewLRUExpireCache(mostKept)}
}

// A person is the owner of a token.
type person struct{ authentication.UserInfo }

// Name returns the name of the user or the service account.
func (p person) Name() string { return p.Username }

// token returns the bearer token in the header Authorization of a request, or else the token in the cookie; empty if
// the request has neither.
func token(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	if c, err := r.Cookie(webui.TokenCookie); err == nil {
		return c.Value
	}
	return ""
}

// Person returns the person whose token a request has. The error is [webui.ErrUnknown] if the
// request has no valid token. Other errors come from the API server.
func (a *Access) Person(r *http.Request) (webui.Person, error) {
	secret := token(r)
	if secret == "" {
		return nil, webui.ErrUnknown
	}
	sum := sha256.Sum256([]byte(secret))
	digest := hex.EncodeToString(sum[:])
	if known, ok := a.people.Get(digest); ok {
		return known.(webui.Person), nil //nolint:forcetypeassert // only values of this type are added to the cache
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	review, err := a.client.AuthenticationV1().TokenReviews().Create(ctx, &authentication.TokenReview{
		Spec: authentication.TokenReviewSpec{Token: secret},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("the API server does not review the token: %w; the operator needs the ClusterRole system:auth-delegator", err)
	}
	if !review.Status.Authenticated {
		return nil, webui.ErrUnknown
	}
	p := person{review.Status.User}
	a.people.Add(digest, webui.Person(p), keptFor)
	return p, nil
}

// key identifies the question whether the person has a right. An authorizer can use each field of the person. For
// example, the authorizer of OpenShift uses the scopes of a token, which are in Extra.
func (p person) key(right webui.Right) string {
	return fmt.Sprintf("%q %q %q %q %q", p.UID, p.Username, p.Groups, p.Extra, right)
}

// Allows reports whether a person that Person returned has a right.
func (a *Access) Allows(ctx context.Context, p webui.Person, right webui.Right) (bool, error) {
	who, ok := p.(person)
	if !ok {
		return false, nil
	}
	key := who.key(right)
	if known, ok := a.rights.Get(key); ok {
		return known.(bool), nil //nolint:forcetypeassert // only values of type bool are added to the cache
	}
	extra := map[string]authorization.ExtraValue{}
	for name, values := range who.Extra {
		extra[name] = authorization.ExtraValue(values)
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{
		Spec: authorization.SubjectAccessReviewSpec{
			User: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra,
			ResourceAttributes: &authorization.ResourceAttributes{
				Namespace: a.namespace, Group: Group, Verb: right.Verb, Resource: right.Resource, Subresource: right.Subresource, Name: right.Name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("the API server does not review the right: %w; the operator needs the ClusterRole system:auth-delegator", err)
	}
	a.rights.Add(key, review.Status.Allowed, keptFor)
	return review.Status.Allowed, nil
}
