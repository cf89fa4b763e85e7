package store

import "fmt"

// A NewestEvent refers to the newest event of one object. The store has such records only for bindings with many
// waiting events.
type NewestEvent struct {
	ID  ID     `json:"id"`
	Key []byte `json:"key"` // key of the header of the event
}

// BacklogKey returns the key of a record about the waiting events of t's binding in t's queue. If o is nil, the record
// is the number of these events. Otherwise, the record is the NewestEvent of the object o.
func BacklogKey(t *Task, o *ObjectRef) Key {
	object := ""
	if o != nil {
		object = o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return At(Backlogs).Str(t.Queue).Str(t.Graph).Str(t.Node).Str(t.Subject.Module).Str(t.Subject.Hook).Str(t.Subject.Binding).Str(object)
}

// backlogs compares the records in table Backlogs with the waiting tasks.
func (c *taskCheck) backlogs() {
	count := map[string]int{}
	for _, t := range c.byKey {
		if t.Object != nil && !t.Waits {
			count[string(BacklogKey(t, nil))]++
		}
	}
	for k := range c.tx.Range(At(Backlogs)) {
		if err := c.backlog(k, count); err != nil {
			c.bad("%v", err)
		}
	}
}

func (c *taskCheck) backlog(k Key, count map[string]int) error {
	object, err := backlogObject(k)
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
	at, _, err := Load[NewestEvent](c.tx, k)
	if err != nil {
		return err
	}
	t := c.byKey[string(at.Key)]
	if t == nil || t.ID != at.ID || t.Object == nil || string(BacklogKey(t, t.Object)) != string(k) {
		return fmt.Errorf("%s leads to no event of the object", k)
	}
	return nil
}

func backlogObject(k Key) (object string, err error) {
	p, err := k.Parts()
	if err != nil {
		return "", err
	}
	for range 7 {
		object = p.Str()
	}
	return object, p.Err()
}
