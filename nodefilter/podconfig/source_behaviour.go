package podconfig

import "fmt"

func (b Behaviour) validate() error {
	if b != Improved && b != KubeletCompatible {
		return fmt.Errorf("is %q: use %q or %q", string(b), Improved, KubeletCompatible)
	}
	return nil
}
