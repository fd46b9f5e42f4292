package codec

import "reflect"

type object struct{}

func (c *compiler) jsonNode(n *node, t reflect.Type, drop *dropTree) error { return nil }
