package store

import "fmt"

// An InCrowd says which task is about an object, of a binding for which many
// events wait: the newest that does.
type InCrowd struct {
	ID  ID     `json:"id"`
	Key []byte `json:"key"` // of its header
}

// CrowdKey returns the key of how many events wait for the binding that t is
// an event of, in t's queue or to go there; with of's, that of the newest about
// the same object.
func CrowdKey(t *Task, of *ObjectRef) Key {
	object := ""
	if of != nil {
		object = of.Kind + " " + of.Namespace + "/" + of.Name
	}
	return At(Crowds).Str(t.Queue).Str(t.Graph).Str(t.Node).Str(t.Subject.Module).Str(t.Subject.Hook).Str(t.Subject.Binding).Str(object)
}

// crowds compares what is kept of bindings for which many events wait with the
// tasks there are.
func (c *taskCheck) crowds() {
	count := map[string]int{}
	for _, t := range c.byKey {
		if t.Object != nil && !t.Waits {
			count[string(CrowdKey(t, nil))]++
		}
	}
	for k := range c.tx.Range(At(Crowds)) {
		if err := c.crowd(k, count); err != nil {
			c.bad("%v", err)
		}
	}
}

func (c *taskCheck) crowd(k Key, count map[string]int) error {
	object, err := crowdObject(k)
	if err != nil {
		return err
	}
	if object == "" {
		n, _, err := Load[int](c.tx, k)
		if err == nil && n != count[string(k)] {
			err = fmt.Errorf("%s counts %d events, there are %d", k, n, count[string(k)])
		}
		return err
	}
	at, _, err := Load[InCrowd](c.tx, k)
	if err != nil {
		return err
	}
	t := c.byKey[string(at.Key)]
	if t == nil || t.ID != at.ID || t.Object == nil || string(CrowdKey(t, t.Object)) != string(k) {
		return fmt.Errorf("%s leads to no event of the object", k)
	}
	return nil
}

func crowdObject(k Key) (object string, err error) {
	p, err := k.Parts()
	if err != nil {
		return "", err
	}
	for range 7 {
		object = p.Str()
	}
	return object, p.Err()
}
