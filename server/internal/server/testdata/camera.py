# An RTSP server with one film, as a camera has it. Arguments: the port, and an MP4 file with H.264.
import sys
import gi

gi.require_version('Gst', '1.0')
gi.require_version('GstRtspServer', '1.0')
from gi.repository import GLib, Gst, GstRtspServer

port, film = sys.argv[1:]
Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address('127.0.0.1')
server.set_service(port)
factory = GstRtspServer.RTSPMediaFactory()
factory.set_launch(f'( filesrc location={film} ! qtdemux ! h264parse ! rtph264pay name=pay0 )')
server.get_mount_points().add_factory('/cam', factory)
server.attach(None)
GLib.MainLoop().run()
