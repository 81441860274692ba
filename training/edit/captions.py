"""Captions that do not say what moves: a reference picture shows it."""
import world


def unnamed(scene, rng, lang=None):
    """Draws a wording of motion, place and time of a scene with one object."""
    pick, o = world._pick, scene.objects[0]
    lang = lang or pick(rng, ["en", "en", "zh"])
    said = scene.said
    if lang == "zh":
        head = [pick(rng, world.ZH_TIME[scene.time])] * said["time"] + [pick(rng, world.ZH_PLACE[scene.background])] * said["background"]
        return world.clean("，".join([*head, pick(rng, world.ZH_VERB[o.motion])]) + pick(rng, ["", "。"]))
    text = pick(rng, world.EN_VERB[o.motion]).split("/")[2 if rng.random() < 0.25 else 0]
    if said["background"]:
        text += " " + pick(rng, world.EN_PLACE[scene.background])
    if said["time"]:
        text += " " + pick(rng, world.EN_TIME[scene.time])
    return (text[0].upper() + text[1:] if rng.random() < 0.5 else text) + pick(rng, ["", "."])
