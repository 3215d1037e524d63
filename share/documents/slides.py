"""Slides with shapes that python-pptx does not know: it raises, and the text of all other shapes would be lost."""

from pptx.oxml.ns import qn
from pptx.oxml.shapes.groupshape import CT_GroupShape
from pptx.shapes.autoshape import Shape


def shape_type(shape, known=Shape.shape_type.fget):
    """None, as python-pptx has it for SmartArt, where it has no name for what a shape is."""
    try:
        return known(shape)
    except NotImplementedError:
        return None


Shape.shape_type = property(shape_type)
# Ink: it has no text, and none of the attributes that are asked of a shape.
CT_GroupShape._shape_tags = tuple(tag for tag in CT_GroupShape._shape_tags if tag != qn("p:contentPart"))
