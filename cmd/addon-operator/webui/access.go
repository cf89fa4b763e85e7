package webui

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// ErrUnknown is the error of [Access.Person] if the person who sent the request is not known and
// must sign in.
var ErrUnknown = errors.New("sign in")

// A Person is a person who sends requests to the page.
type Person interface {
	// Name returns the name of the person, which is stored with the actions of the person.
	Name() string
}

// A Right is a right of a person, in the form of RBAC rules. The resource of a right belongs to the
// API group addon-operator, which exists only in RBAC rules.
type Right struct{ Verb, Resource, Subresource, Name string }

// Resources of the views. A person needs the right "get" on the resource of a view to see it.
const (
	statusResource   = "status"   // the resource of all views that have none of the resources below
	outputResource   = "output"   // the output of hooks
	valuesResource   = "values"   // values with their origins
	releasesResource = "releases" // manifests of releases
)

// Access identifies the persons who send requests, and decides what they may see and do.
type Access interface {
	// Person returns the person who sent a request. If the person is not known, the error is ErrUnknown.
	Person(r *http.Request) (Person, error)
	// Allows reports whether a person has a right.
	Allows(ctx context.Context, p Person, right Right) (bool, error)
}

// A viewer is the person who sent a request, with the access control of the page. Without access
// control, it is nil.
type viewer struct {
	Person

	access Access
}

// viewerKey is the type of the context key under which a request has its viewer.
type viewerKey struct{}

// viewerOf returns the viewer who sent a request, or nil if the page has no access control.
func viewerOf(r *http.Request) *viewer {
	v, _ := r.Context().Value(viewerKey{}).(*viewer)
	return v
}

// may returns an error if the viewer who sent the request r does not have the right, or if the API server does not
// answer. If the page has no access control, the result is nil.
func may(r *http.Request, right Right) error {
	v := viewerOf(r)
	if v == nil {
		return nil
	}
	allowed, err := v.access.Allows(r.Context(), v.Person, right)
	if err != nil {
		return err
	}
	if !allowed {
		return &answerError{http.StatusForbidden, v.Name() + " may not " + right.String() + "; a Role can allow it"}
	}
	return nil
}

// String returns the right as text, such as "get status in the API group addon-operator".
func (right Right) String() string {
	text := right.Verb + " " + right.Resource
	if right.Subresource != "" {
		text += "/" + right.Subresource
	}
	if right.Name != "" {
		text += " " + right.Name
	}
	return text + " in the API group addon-operator"
}

// Rights returns the rights that views need, without duplicates, and the rights that actions need.
func Rights() (see, act []Right) {
	for i := range views {
		if right := viewRight(views[i].resource); !slices.Contains(see, right) {
			see = append(see, right)
		}
	}
	for i := range actions {
		right := actions[i].right
		right.Name = ""
		act = append(act, right)
	}
	return see, act
}

// viewRight returns the right to see a resource.
func viewRight(resource string) Right { return Right{Verb: "get", Resource: resource} }

// TokenCookie is the name of the cookie with the token of a person who has signed in. Because of the
// prefix of the name, browsers send the cookie only over TLS and only to this host.
const TokenCookie = "__Host-addon-operator-token" //nolint:gosec // a name

// mostCookie is the maximum length of a token. All browsers store a cookie of this length.
const mostCookie = 4000

// signIn is the model of the sign-in view.
type signIn struct {
	frame

	Wrong string // error of the last attempt to sign in; empty if there was none
}

// identified returns a handler that passes the requests of known persons to the handler next, and answers other
// requests with the sign-in view. Requests for assets, and the form with which a person signs in, are passed to the
// handler next too. If the page has no access control, identified returns the handler next itself.
func (p *pages) identified(next http.Handler) http.Handler {
	if p.Access == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/assets/") || r.Method == http.MethodPost && r.URL.Path == signInPath {
			next.ServeHTTP(w, r)
			return
		}
		person, err := p.Access.Person(r)
		switch {
		case errors.Is(err, ErrUnknown):
			p.askToSignIn(w, r, "")
		case err != nil:
			p.fail(w, r, err)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), viewerKey{}, &viewer{person, p.Access})))
		}
	})
}

// askToSignIn answers with the sign-in view. The argument wrong is the error of the last attempt to
// sign in; empty if there was none.
func (p *pages) askToSignIn(w http.ResponseWriter, r *http.Request, wrong string) {
	s := &signIn{frame: p.frame(r, "Sign in"), Wrong: wrong}
	s.Live = false
	if r.Method != http.MethodGet {
		s.Here = backTo(r.PostFormValue("back"))
	}
	p.render(w, http.StatusUnauthorized, "sign_in", s)
}

// signIn asks the API server whether the token in the form is valid, and stores a valid token in a
// cookie of the browser.
func (p *pages) signIn(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimSpace(r.PostFormValue("token"))
	if token == "" || len(token) > mostCookie || strings.ContainsAny(token, " ;,\"\\\r\n\t") {
		p.askToSignIn(w, r, "The token is empty, or a browser cannot store it.")
		return
	}
	probe := r.Clone(r.Context())
	probe.Header.Set("Authorization", "Bearer "+token)
	if _, err := p.Access.Person(probe); errors.Is(err, ErrUnknown) {
		p.askToSignIn(w, r, "The API server does not accept this token.")
		return
	} else if err != nil {
		p.fail(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: TokenCookie, Value: token, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, backTo(r.PostFormValue("back")), http.StatusSeeOther)
}

// signOut deletes the cookie with the token in the browser.
func (*pages) signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: TokenCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// rightOf returns the right that the action needs. The argument parts must have the texts that match {} in the path of
// the action.
func (a *action) rightOf(parts []string) Right {
	right := a.right
	if right.Name == "{}" {
		right.Name = parts[0]
	}
	return right
}
