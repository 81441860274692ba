#!/usr/bin/env python3
"""Makes turned_videos.txt: videos of one frame whose containers say that it is turned or mirrored, and what ffmpeg shows of them.

    python3 make_turned_videos.py      (imageio-ffmpeg 0.8.1, which brings ffmpeg 9.0.2)

Each line has a name, the file's bytes, width, height and the first frame's RGB pixels as ffmpeg with autorotate writes them; bytes are hex digits.
"""
import os
import re
import subprocess
import tempfile

import imageio_ffmpeg

HERE = os.path.dirname(os.path.abspath(__file__))
FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
EXACT = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1"]
FULL = ["-sws_flags", "accurate_rnd+full_chroma_int+full_chroma_inp+bitexact"]


def ffmpeg(*arguments):
    return subprocess.run([FFMPEG, "-loglevel", "error", "-y", *arguments], check=True, stdout=subprocess.PIPE).stdout


def main():
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "source.mp4")
        # The picture is smooth, so that all ways of enlarging chroma agree, and it differs in each of the
        # eight orientations. The text in which the encoder describes itself is removed.
        picture = "gradients=size=32x16:rate=5:duration=0.2:n=3:c0=red:c1=green:c2=blue:x0=0:y0=0:x1=31:y1=15:seed=3"
        ffmpeg("-f", "lavfi", "-i", picture, "-frames:v", "1", "-c:v", "libx264", "-crf", "1", "-pix_fmt", "yuv420p", "-bsf:v",
               "filter_units=remove_types=6", *EXACT, plain)

        def add(name, *turn, note=None, source=plain):
            path = os.path.join(folder, name)
            ffmpeg(*turn, "-i", source, "-c", "copy", *(["-bsf:v", note] if note else []), *EXACT, path)
            shown = ffmpeg(*FULL, "-i", path, "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", *FULL, "-")
            size = subprocess.run([FFMPEG, "-i", path, "-frames:v", "1", "-f", "null", "-"], stderr=subprocess.PIPE, text=True).stderr
            width, height = re.findall(r"Output #0.*?Video: wrapped_avframe.*? (\d+)x(\d+)", size, re.S)[0]
            with open(path, "rb") as file:
                lines.append(f"{name} {file.read().hex()} {width} {height} {shown.hex()}\n")

        add("plain.mp4")
        for container in ("mp4", "mkv"):
            for angle in (0, 90, 180, 270):
                for flip in ((), ("-display_hflip",)):
                    if angle or flip:
                        add(f"turned{angle}{'mirrored' if flip else ''}.{container}", "-display_rotation", str(angle), *flip)
        add("turned90.mov", "-display_rotation", "90")
        add("turned180mirrored.mov", "-display_rotation", "180", "-display_hflip")
        # Here the orientation is in an SEI message of H.264, whose angle is that of the picture, counter-clockwise.
        noted = os.path.join(folder, "noted.mp4")
        ffmpeg("-f", "lavfi", "-i", picture, "-frames:v", "1", "-c:v", "libx264", "-crf", "1", "-pix_fmt", "yuv420p", *EXACT, noted)
        for angle, container in ((90, "mp4"), (270, "mkv")):
            add(f"note{angle}.{container}", source=noted, note=f"h264_metadata=display_orientation=insert:rotate={angle}")
        # An edit list cuts this video: one of ten frames is shown.
        long = os.path.join(folder, "long.mp4")
        ffmpeg("-f", "lavfi", "-i", picture.replace("duration=0.2", "duration=2"), "-c:v", "libx264", "-g", "99", "-pix_fmt", "yuv420p", "-bsf:v",
               "filter_units=remove_types=6", *EXACT, long)
        add("edited.mp4", "-ss", "1.61", source=long)
        # These have properties that a player would apply and that the reader only mentions: HDR curves, pixels that are not square, unequal times.
        for curve, code in (("smpte2084", 16), ("arib-std-b67", 18)):
            hdr = os.path.join(folder, f"{curve}-source.mp4")
            ffmpeg("-f", "lavfi", "-i", picture, "-frames:v", "1", "-vf", "scale=out_color_matrix=bt2020nc:out_range=tv,format=yuv420p10le,setparams="
                   f"color_trc={curve}:color_primaries=bt2020:colorspace=bt2020nc", "-c:v", "libx265", "-x265-params",
                   f"log-level=none:crf=4:info=0:colorprim=9:transfer={code}:colormatrix=9", *EXACT, hdr)
            add(f"{curve}.mp4", source=hdr)
        oblong = os.path.join(folder, "oblong-source.mp4")
        ffmpeg("-i", long, "-frames:v", "1", "-vf", "setsar=16/11", "-c:v", "libx264", "-crf", "1", "-bsf:v", "filter_units=remove_types=6", *EXACT, oblong)
        add("oblong.mp4", source=oblong)
        unequal = os.path.join(folder, "unequal-source.mp4")
        ffmpeg("-i", long, "-vf", "select='not(eq(n,2)+eq(n,3))'", "-fps_mode", "vfr", "-frames:v", "4", "-c:v", "libx264", "-crf", "9", "-bsf:v",
               "filter_units=remove_types=6", *EXACT, unequal)
        add("unequal.mp4", source=unequal)
    with open(os.path.join(HERE, "turned_videos.txt"), "w", encoding="ascii") as out:
        out.writelines(lines)


main()
