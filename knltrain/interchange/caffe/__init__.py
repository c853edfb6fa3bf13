"""Files of Caffe: its binary formats are messages of protocol buffers."""
